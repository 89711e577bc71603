CREATE TABLE kcc_register (version BIGINT NOT NULL);
INSERT INTO kcc_register VALUES (0);
CREATE TABLE kcc_event (
  sequence BIGINT PRIMARY KEY, time_ms BIGINT NOT NULL, actor TEXT NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE kcc_blob (digest TEXT COLLATE "C" PRIMARY KEY, bytes BYTEA NOT NULL);
INSERT INTO kcc_event VALUES (1, 1700000000001, 'ann', 'model.added', '{"model":"m-1"}', 'sha256:a3cf1180c29773a5435bb487256e132f87034c6f898b581cc9889c4db81c89ab');
INSERT INTO kcc_event VALUES (2, 1700000000002, 'ann', 'kernel.added', '{"build":{"engine":"e"},"kernel":"train-1"}', 'sha256:a8682111be0918a49593aaf8d6091a408d1995ac1abde4ecd5df4390839e1ab4');
INSERT INTO kcc_event VALUES (3, 1700000000003, 'ann', 'kernel.added', '{"build":{},"kernel":"infer-1"}', 'sha256:172c3c56afbc3153d4edee661affbdc5106925a9924542ad67cdf53adfcff252');
INSERT INTO kcc_event VALUES (4, 1700000000004, 'ann', 'contract.added', '{"contract":"sha256:34d4ef5d76af5eb4569a4f78ee79709083aec757c4a5545bea82a8ca8d58b673","name":"c"}', 'sha256:a1bc534153db3976bbf4fced17713741049dbeef84be741b20866b3753e934e5');
INSERT INTO kcc_event VALUES (5, 1700000000005, 'ann', 'triple.added', '{"contract":"sha256:34d4ef5d76af5eb4569a4f78ee79709083aec757c4a5545bea82a8ca8d58b673","infer":"infer-1","model":"m-1","train":"train-1","triple":"sha256:48168fa99cb7e014e77dbf4af79fc5b2a50caac8e820883ea7326f88bc713ac9"}', 'sha256:43d1c53783a740b3344bbddde8f22d402aadce5ff70ccf5f38beeb951e7f1001');
INSERT INTO kcc_event VALUES (6, 1700000000006, 'ann', 'evaluation.recorded', '{"clauses":[],"evidence":[],"health":0.5,"report":"sha256:8336413defb254fb7a2da1e37bcdc172cac5e787c43f9be42d85402c14ff9424","stage":"offline","triple":"sha256:48168fa99cb7e014e77dbf4af79fc5b2a50caac8e820883ea7326f88bc713ac9","verdict":"satisfied"}', 'sha256:04d348f8ea1f286cf0023a61cbc10bf6473a9d4458954c4c36325f4804b698a4');
INSERT INTO kcc_event VALUES (7, 1700000000007, 'ann', 'promotion.changed', '{"cause":"é","from":"proposed","promotion":"p","state":{"step":1},"to":"offline","triple":"sha256:48168fa99cb7e014e77dbf4af79fc5b2a50caac8e820883ea7326f88bc713ac9"}', 'sha256:d1694c90c1ac575ae7a9d16dd00ecbc3d860c214c09827173a4ad50a37ad4b08');
INSERT INTO kcc_blob VALUES ('sha256:34d4ef5d76af5eb4569a4f78ee79709083aec757c4a5545bea82a8ca8d58b673', '\x7b226e616d65223a2263227d');
INSERT INTO kcc_blob VALUES ('sha256:8336413defb254fb7a2da1e37bcdc172cac5e787c43f9be42d85402c14ff9424', '\x7b227265706f7274223a317d');
