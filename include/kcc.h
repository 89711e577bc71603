/* libkcc: kcc from C, and from every language that can call C.
 *
 * Stable: what is declared here keeps its meaning; functions and struct members are added at the
 * end, never changed. KCC_ABI_VERSION rises with every addition; a library serves every header
 * with the same or a lower number.
 *
 * Errors. Every function that can fail returns a kcc_status; on failure the outputs are untouched
 * and kcc_error() says what is wrong, where, and what to do. No function prints, exits or throws.
 *
 * Memory. Handles are made by functions with an `out` argument and ended by their _free function;
 * texts are ended by kcc_text_free. NULL may be freed. Arrays are the caller's and are never copied
 * or kept after the call returns.
 *
 * Threads. Functions may be called from any thread. A handle may be read (const argument) by many
 * threads at once, but changed (non-const argument) by one alone, while no other reads it: there is
 * no lock in it. kcc_error() is per thread.
 */
#ifndef KCC_H
#define KCC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KCC_API __attribute__((visibility("default")))
#define KCC_CUDA_API __attribute__((visibility("default")))
#else
#define KCC_API
#define KCC_CUDA_API
#endif

#define KCC_ABI_VERSION 6

/* For kcc_arrays.sampling_temperature. */
#define KCC_GREEDY (-1.0)

typedef enum kcc_status {
  KCC_OK = 0,
  KCC_INVALID = 2,  /* the caller's input is wrong */
  KCC_IO = 4,       /* a file or device failed */
  KCC_BROKEN = 5,   /* broken evidence: NaN, missing pair, wrong semantics */
  KCC_INTERNAL = 6, /* out of memory, or a fault of kcc itself */
} kcc_status;

KCC_API int kcc_abi_version(void);
KCC_API const char* kcc_version(void); /* "0.1.0" */

/* The last failure in this thread; "" if none. Lives until the thread's next call. */
KCC_API const char* kcc_error(void);

/* UTF-8, ended by a zero byte that `size` does not count. */
typedef struct kcc_text {
  char* data;
  size_t size;
} kcc_text;
KCC_API void kcc_text_free(kcc_text* text);

/* ---- Arrays ------------------------------------------------------------------------------- */

typedef enum kcc_dtype {
  KCC_F32 = 0,
  KCC_F64 = 1,
  KCC_F16 = 2,
  KCC_BF16 = 3,
  KCC_F8_E4M3 = 4,
  KCC_F8_E5M2 = 5,
  KCC_U8 = 6, /* also bool */
  KCC_I32 = 7,
  KCC_I64 = 8,
} kcc_dtype;

/* data == NULL: the caller has none. */
typedef struct kcc_array {
  const void* data;
  kcc_dtype dtype;
  int64_t row_stride; /* elements from one row to the next; 0: rows are adjacent */
} kcc_array;

/* ---- Contracts ----------------------------------------------------------------------------- */

typedef struct kcc_contract kcc_contract;

/* `name` stands in messages for the file; may be NULL. Fails with every error of the document. */
KCC_API kcc_status kcc_contract_parse(const char* yaml, size_t size, const char* name,
                                      kcc_contract** out);
KCC_API kcc_status kcc_contract_read(const char* path, kcc_contract** out);
/* {"name", "version", "digest", "slices", "metrics", "clauses": [{"id", "metric", …}]} */
KCC_API kcc_status kcc_contract_json(const kcc_contract* contract, kcc_text* out);
/* Errors and warnings of a document as `kcc check --json` prints them; succeeds for wrong ones. */
KCC_API kcc_status kcc_contract_check(const char* yaml, size_t size, const char* name,
                                      kcc_text* out);
KCC_API void kcc_contract_free(kcc_contract* contract);

/* ---- Summaries ----------------------------------------------------------------------------- */

typedef struct kcc_summary kcc_summary;

/* Two traces on disk. `contract` may be NULL: then the default plan. threads 0: all cores. */
KCC_API kcc_status kcc_measure_traces(const char* train, const char* infer,
                                      const kcc_contract* contract, int threads, kcc_summary** out);

/* Both sides' evidence about the same tokens in memory: logits [rows, vocab_size] (F32, F16, BF16,
 * FP8) or top-k lists on each side, or log-probs of the sampled tokens on both (F32, F64;
 * row_stride unused). Lists may come with the log-probs of the sampled tokens. Request
 * r owns row_counts[r] rows from first_rows[r] on; other rows are padding. `requests_jsonl` is one
 * JSON object a line, in the order of r, as in a trace: {"id": "a", "tags": ["math"]}. It is one
 * record for both sides, so what compares the records of two sides (reward_drift, the gaps of
 * refusals and parses, replay signatures) is not known; measure two traces for that. */
typedef struct kcc_arrays {
  size_t struct_size; /* sizeof(kcc_arrays) */
  kcc_array train_logits, infer_logits;
  kcc_array train_logprobs, infer_logprobs;
  int64_t rows; /* of every array given */
  int64_t vocab_size;
  double temperature; /* of the distributions: logits are divided by it, log-probs are at it */
  const char* requests_jsonl;
  size_t requests_jsonl_size;
  int64_t requests;
  const int64_t* first_rows;
  const int64_t* row_counts;
  const int32_t* positions;      /* NULL: counted from 0 in each request */
  const int32_t* tokens;         /* NULL: not known */
  const uint8_t* mask;           /* NULL: every row counts */
  const float* advantages;       /* NULL: none */
  const char* train_fingerprint; /* NULL: "" */
  const char* infer_fingerprint;
  const char* sampled_by; /* "infer" (NULL), "train" or "dataset" */
  int clauses_only;       /* 1: of the token quantities only those that a clause names: faster */
  /* at which the tokens were sampled; 0: at `temperature`; KCC_GREEDY: each the likeliest, or not
     drawn from the whole distribution (top-k, top-p): nothing is estimated from them */
  double sampling_temperature;
  /* where the logits lie: NULL: in the host's memory; "cuda": on that device (kcc_device_load).
     Everything else is in the host's memory. Since version 4 */
  const char* device;
  int device_index; /* of several devices; -1: the current one */
  void* stream;     /* cudaStream_t: what it holds now is done before the logits are read */
  /* top-k lists in the host's memory: [rows, top_k] ids and log-probs, in falling order of the
     log-probs; -1 fills up shorter lists. NULL: none. Since version 5 */
  const int32_t* train_top_ids;
  const float* train_top_logprobs;
  int64_t train_top_k;
  const int32_t* infer_top_ids;
  const float* infer_top_logprobs;
  int64_t infer_top_k;
} kcc_arrays;
KCC_API kcc_status kcc_measure_arrays(const kcc_arrays* arrays, const kcc_contract* contract,
                                      int threads, kcc_summary** out);

/* Adds `from` to `into`; exact, in any order. On failure `into` is as before. */
KCC_API kcc_status kcc_summary_merge(kcc_summary* into, const kcc_summary* from);
/* The bytes of a .kccs file; equal summaries give equal bytes. */
KCC_API kcc_status kcc_summary_encode(const kcc_summary* summary, kcc_text* out);
KCC_API kcc_status kcc_summary_decode(const char* bytes, size_t size, kcc_summary** out);
KCC_API kcc_status kcc_summary_read(const char* path, kcc_summary** out);
KCC_API kcc_status kcc_summary_write(const kcc_summary* summary, const char* path);
KCC_API int64_t kcc_summary_tokens(const kcc_summary* summary);
KCC_API int64_t kcc_summary_requests(const kcc_summary* summary);
KCC_API void kcc_summary_free(kcc_summary* summary);

/* ---- Judging ------------------------------------------------------------------------------- */

/* format: the name of one of docs/report.md, such as "json" or "html". stage: "offline" (NULL),
 * "shadow", "canary", "full". about: NULL for the contract's, "evaluation-set" or "traffic". */
KCC_API kcc_status kcc_judge(const kcc_contract* contract, const kcc_summary* summary,
                             const char* stage, const char* about, const char* format,
                             kcc_text* out);

/* ---- Bounds --------------------------------------------------------------------------------- */

/* options: those of `kcc bound` as a JSON object, {"linf": 0.05, "reward_max": 1}; one of span,
 * linf, l2, tv, kl, abs_log_ratio (what follows), reward_drift, gradient_bias (what guarantees it);
 * with temperature, reward_max, rewards_from_zero (true or false), advantage_max, score_norm_max,
 * advantages ("outcome" or "token"), tokens, weight_min, weight_max. Gives what `kcc bound --json`
 * prints. */
KCC_API kcc_status kcc_bound(const char* options, kcc_text* out);

/* ---- RL ------------------------------------------------------------------------------------ */

/* Log-probs of the same sampled tokens: [rows, columns] with a stride, or packed (offsets given:
 * row r is elements [offsets[r], offsets[r+1])). F32 or F64; mask U8, I32, I64, F32 or F64. */
typedef struct kcc_rl_batch {
  size_t struct_size; /* sizeof(kcc_rl_batch) */
  int64_t rows, columns;
  const int64_t* offsets; /* rows + 1 of them; NULL: padded */
  kcc_array train, rollout;
  kcc_array old_logprobs;      /* by the trainer, of the weights that sampled; may be empty */
  kcc_array mask;              /* may be empty: every token counts */
  kcc_array advantages;        /* may be empty */
  int advantage_per_row;       /* 1: [rows]; 0: as train */
  const int32_t* slice_of_row; /* NULL: one slice */
  const char* const* slice_names;
  int32_t slice_count;
} kcc_rl_batch;

typedef struct kcc_rl_summary kcc_rl_summary;
KCC_API kcc_status kcc_rl_summary_new(kcc_rl_summary** out);
/* On failure nothing was added. threads 0: all cores. */
KCC_API kcc_status kcc_rl_summary_add(kcc_rl_summary* summary, const kcc_rl_batch* batch,
                                      int threads);
KCC_API kcc_status kcc_rl_summary_merge(kcc_rl_summary* into, const kcc_rl_summary* from);
KCC_API kcc_status kcc_rl_summary_encode(const kcc_rl_summary* summary, kcc_text* out);
KCC_API kcc_status kcc_rl_summary_decode(const char* bytes, size_t size, kcc_rl_summary** out);
/* {"": {figures of everything}, "math": {…}}: docs/rl.md */
KCC_API kcc_status kcc_rl_summary_figures(const kcc_rl_summary* summary, double confidence,
                                          kcc_text* out);
/* limits: {"token.tv": 0.01, "token.k3": 1e-3}: figures at most so much, or {"atLeast": …}
 * (docs/rl.md). Gives
 * [{"figure", "outcome": "satisfied|violated|inconclusive", "value", "why", …}]. */
KCC_API kcc_status kcc_rl_summary_judge(const kcc_rl_summary* summary, const char* limits,
                                        double confidence, kcc_text* out);
KCC_API void kcc_rl_summary_free(kcc_rl_summary* summary);

/* correction: JSON (docs/rl.md). weights and mask have rows x columns elements, or as many as the
 * packed arrays; either may be NULL. figures: JSON, may be NULL. */
KCC_API kcc_status kcc_rl_correct(const kcc_rl_batch* batch, const char* correction, int threads,
                                  float* weights, uint8_t* mask, kcc_text* figures);
KCC_API kcc_status kcc_rl_lint(const kcc_rl_batch* batch, kcc_text* out);
/* format: "json" or "html". */
KCC_API kcc_status kcc_rl_replay(const kcc_rl_batch* batch, int threads, const char* format,
                                 kcc_text* out);

/* A framework's own function with its own options (JSON; NULL: its defaults): docs/rl-dialects.md.
 * function NULL: the dialect's first. */
typedef struct kcc_rl_dialect kcc_rl_dialect;
KCC_API kcc_status kcc_rl_dialect_run(const char* dialect, const char* function,
                                      const kcc_rl_batch* batch, const char* options,
                                      kcc_rl_dialect** out);
KCC_API kcc_status kcc_rl_dialect_metrics(const kcc_rl_dialect* result, kcc_text* out);
/* The array called `name` ("weights", "mask" …): its values and where rows begin (rows + 1
 * offsets). Views that live as long as the result. Fails for a name it lacks. */
KCC_API kcc_status kcc_rl_dialect_array(const kcc_rl_dialect* result, const char* name,
                                        const double** values, const int64_t** offsets,
                                        int64_t* rows);
KCC_API void kcc_rl_dialect_free(kcc_rl_dialect* result);

/* kcc_rl_summary_add and kcc_rl_correct in one visit of the arrays, with the same results. On
 * failure nothing was added; weights and mask may be written in part. `mask` may be the batch's own
 * (U8, rows adjacent). Since version 2. */
KCC_API kcc_status kcc_rl_step(kcc_rl_summary* summary, const kcc_rl_batch* batch,
                               const char* correction, int threads, float* weights, uint8_t* mask,
                               kcc_text* figures);

/* An RL step from files as trainers dump them: .npz, .npy, .safetensors, .pt, .jsonl, directories
 * of prime-rl token exports, or two traces, train then infer (docs/rl.md lists names and shapes).
 * slice_by: the request field by which traces are sliced, or NULL. Since version 3. */
typedef struct kcc_rl_dump kcc_rl_dump;
KCC_API kcc_status kcc_rl_dump_read(const char* const* paths, size_t count, const char* slice_by,
                                    kcc_rl_dump** out);
/* Fills `batch`, whose struct_size the caller sets, with views (F64) that live as long as the dump.
 */
KCC_API kcc_status kcc_rl_dump_batch(const kcc_rl_dump* dump, kcc_rl_batch* batch);
KCC_API void kcc_rl_dump_free(kcc_rl_dump* dump);

/* kcc_rl_lint, and what is vacuous in the settings of a correction (JSON) on this batch: the same
 * text with "settings": docs/rl-lint.md. Since version 3. */
KCC_API kcc_status kcc_rl_lint_correction(const kcc_rl_batch* batch, const char* correction,
                                          int threads, kcc_text* out);

/* ---- Devices ------------------------------------------------------------------------------- */

/* Loads the library that measures logits on a device; device is "cuda", its library
 * libkcc_cuda.so. path NULL: beside libkcc, or where the system's loader looks. Fails with KCC_IO
 * and says where it looked. To be called before logits on the device are measured; a second call
 * takes the place of the first for what is measured afterwards. Since version 4. */
KCC_API kcc_status kcc_device_load(const char* device, const char* path);

/* kcc_measure_arrays in two parts, so that the caller can work while a device measures: begin
 * checks what it can and starts the device; finish waits for it and sums up, once. What `arrays`
 * points to stays the caller's and must stay as it is until finish has returned, or until the
 * measurement is freed. Logits in the host's memory are measured by finish. Since version 4. */
typedef struct kcc_measurement kcc_measurement;
KCC_API kcc_status kcc_measure_begin(const kcc_arrays* arrays, const kcc_contract* contract,
                                     int threads, kcc_measurement** out);
KCC_API kcc_status kcc_measure_finish(kcc_measurement* measurement, kcc_summary** out);
KCC_API void kcc_measurement_free(kcc_measurement* measurement);

/* kcc_measure_traces with the rows' logits measured on a device, "cuda"; both traces must hold full
 * logits. Since version 4. */
KCC_API kcc_status kcc_measure_traces_on(const char* device, const char* train, const char* infer,
                                         const kcc_contract* contract, int threads,
                                         kcc_summary** out);
/* What measured the logits of a summary: "" for the CPU, "cuda", or both as "cpu,cuda". Since
 * version 4. */
KCC_API kcc_status kcc_summary_backends(const kcc_summary* summary, kcc_text* out);

/* ---- The online monitor -------------------------------------------------------------------- */

/* A contract watched while a kernel serves: alarms, who serves, and what brings a kernel back
 * (docs/monitor.md). Time is data, and the same observations give the same decisions. All of it
 * since version 6. */
typedef struct kcc_monitor kcc_monitor;

/* policy: the text of a document of kind MonitorPolicy; policy_name stands in messages for its
 * file, may be NULL. stage: whose clauses are watched, "offline", "shadow", "canary" or "full"
 * (NULL). The contract may be freed before the monitor. */
KCC_API kcc_status kcc_monitor_new(const kcc_contract* contract, const char* policy,
                                   size_t policy_size, const char* policy_name, const char* stage,
                                   kcc_monitor** out);
/* The whole state, of a bounded size; equal states give equal bytes. */
KCC_API kcc_status kcc_monitor_save(const kcc_monitor* monitor, kcc_text* out);
/* What kcc_monitor_save gave, with the same contract, policy and stage: a monitor that decides as
 * the saved one would have. Fails on anything else. */
KCC_API kcc_status kcc_monitor_restore(const kcc_contract* contract, const char* policy,
                                       size_t policy_size, const char* policy_name,
                                       const char* stage, const char* bytes, size_t size,
                                       kcc_monitor** out);
KCC_API void kcc_monitor_free(kcc_monitor* monitor);

/* Folds one observation: a JSON object as `kcc monitor run` reads it from a line. Gives what became
 * of it: {"number", "handling", "serves", "changes": [{"kind", "kernel", "clause", "slice",
 * "reason", …}]}. An observation that cannot be read, or of a kernel that the policy lacks, is
 * refused and changes nothing. After KCC_INTERNAL the monitor may hold half of it: further calls
 * are refused until it is restored from what was saved. */
KCC_API kcc_status kcc_monitor_observe(kcc_monitor* monitor, const char* json, size_t size,
                                       kcc_text* out);

/* One quantity of every token of a request. */
typedef struct kcc_column {
  /* a token quantity of the catalog ("kl", "train_entropy"), a token metric of the contract's own,
     or logprob, train_logprob, confidence, train_confidence */
  const char* name;
  const double* values; /* NaN: missing */
  const double* upper;  /* upper ends of intervals; NULL: the values are exact */
} kcc_column;

/* One request. Records are JSON objects as in a trace, {"id": "a", "tags": ["math"]}. */
typedef struct kcc_observation {
  size_t struct_size; /* sizeof(kcc_observation) */
  int64_t time_ms;
  const char* kernel;        /* of the policy: who served the request */
  const char* session;       /* NULL: the request is a session of its own */
  int probe;                 /* 1: a copy that nobody was answered with */
  int audited;               /* 0: counted as served, and evidence of nothing */
  int one_record;            /* 1: infer's record speaks for both sides, as in kcc_arrays */
  const char* infer_request; /* what the kernel recorded */
  const char* train_request; /* what the audit recorded; NULL: it has no word */
  const char* asked_request; /* what was asked of both; NULL: not known */
  int64_t rows;              /* tokens that both sides scored, masked ones left out */
  int64_t masked;            /* tokens of the output that were left out */
  const int32_t* positions;  /* NULL: counted from 0 */
  const int32_t* tokens;     /* NULL: not known, and so of what follows */
  const int32_t* gold;       /* labels; -1: none */
  const int32_t* infer_argmax;
  const int32_t* train_argmax;
  const double* advantages;
  const kcc_column* columns;
  int64_t column_count;
} kcc_observation;
/* kcc_monitor_observe from arrays. */
KCC_API kcc_status kcc_monitor_observe_tokens(kcc_monitor* monitor,
                                              const kcc_observation* observation, kcc_text* out);

/* Whether a request is to be audited, or shown to a guarded kernel as a probe, at the kernel's
 * current rate: *out is 1 or 0. A question alone; session may be NULL. */
KCC_API kcc_status kcc_monitor_should_audit(const kcc_monitor* monitor, const char* request,
                                            const char* session, const char* kernel,
                                            int64_t time_ms, int* out);
/* {"serves", "panic", "kernels": [{"name", "state", "health", "clauses": [{"clause", "slice",
 * "verdict", "reason", …}]}], …} */
KCC_API kcc_status kcc_monitor_status(const kcc_monitor* monitor, kcc_text* out);

/* What a measurement made of every token: kcc_measure_finish that gives both. */
typedef struct kcc_tokens kcc_tokens;
KCC_API kcc_status kcc_measure_finish_tokens(kcc_measurement* measurement, kcc_summary** out,
                                             kcc_tokens** tokens);
/* Fills `observation`, whose struct_size the caller sets, with request r of the arrays: its record,
 * audited, and its tokens as views that live as long as the handle. Kernel, time and session are
 * the caller's to set. */
KCC_API kcc_status kcc_tokens_observation(const kcc_tokens* tokens, int64_t request,
                                          kcc_observation* observation);
KCC_API void kcc_tokens_free(kcc_tokens* tokens);

/* ---- The CUDA library ---------------------------------------------------------------------- */

/* What follows is in libkcc_cuda.so, not in libkcc: quantities of single rows, for who wants them
 * rather than a summary. libkcc loads it and calls it through the same functions. Functions return
 * NULL on success, else a text that says what is wrong and that nobody frees. */
#define KCC_CUDA_ABI_VERSION 1
KCC_CUDA_API int kcc_cuda_abi_version(void);

/* The values of a row, numbered from 0; names as in the catalog ("kl", "train_entropy"), and beside
 * those logprob, train_logprob, confidence and train_confidence. */
KCC_CUDA_API int kcc_cuda_values(void);
KCC_CUDA_API const char* kcc_cuda_value_name(int value);

enum { /* kcc_cuda_rows.wanted; what is not wanted is NaN */
       KCC_CUDA_TOP_K = 1,
       KCC_CUDA_REVERSE_CHI2 = 2,
       KCC_CUDA_ON_DEMAND = 4 /* js, hellinger and rank: every row is measured in double */
};

typedef enum kcc_cuda_row_status {
  KCC_CUDA_ROW_FAST = 0,       /* measured by the fast kernel */
  KCC_CUDA_ROW_CAREFUL = 1,    /* measured in double */
  KCC_CUDA_ROW_BAD_TRAIN = 2,  /* NaN or +inf among the train logits: the values are NaN */
  KCC_CUDA_ROW_BAD_INFER = 3,  /* the same among the infer logits */
  KCC_CUDA_ROW_NO_SUPPORT = 4, /* one side is -inf throughout */
  KCC_CUDA_ROW_BAD_TOKEN = 5,  /* the token is outside the vocabulary, or -inf on both sides */
  KCC_CUDA_ROW_UNSOUND = 6,    /* the values break what any two distributions obey */
} kcc_cuda_row_status;

typedef struct kcc_cuda_rows {
  size_t struct_size;     /* sizeof(kcc_cuda_rows) */
  kcc_array train, infer; /* [rows, vocab_size] on the device: F32, F16, BF16 or FP8 */
  int64_t rows;
  int64_t vocab_size; /* entries at or beyond it are padding */
  double temperature;
  unsigned wanted;
  const int32_t* tokens; /* by row, -1: none; NULL: no tokens */
  /* For kcc_cuda_measure alone, all on the device: */
  double* values;         /* [kcc_cuda_values()][rows] */
  int32_t* argmax;        /* [2][rows], infer then train; may be NULL */
  int32_t* status;        /* [rows], kcc_cuda_row_status */
  void* workspace;        /* 256-byte aligned */
  size_t workspace_bytes; /* kcc_cuda_workspace_bytes */
  void* stream;           /* cudaStream_t */
} kcc_cuda_rows;

/* Enqueues the measurement on the stream and waits for nothing; `tokens` is on the device. */
KCC_CUDA_API const char* kcc_cuda_measure(const kcc_cuda_rows* rows);
KCC_CUDA_API size_t kcc_cuda_workspace_bytes(const kcc_cuda_rows* rows);

/* A session has a stream and memory of its own and gives values back to the host; one thread at a
 * time. A measurement is begin, any number of adds, wait. device -1: the current one. */
typedef struct kcc_cuda_session kcc_cuda_session;
KCC_CUDA_API const char* kcc_cuda_session_new(int device, kcc_cuda_session** out);
KCC_CUDA_API void kcc_cuda_session_free(kcc_cuda_session* session);
/* At most `rows` rows will be added. What `after`, a cudaStream_t, holds now is done first. */
KCC_CUDA_API const char* kcc_cuda_session_begin(kcc_cuda_session* session, int64_t rows,
                                                void* after);
/* Enqueues some rows. `tokens` is in the host's memory and is copied. host_logits: so are the
 * logits, which are copied to the device; they may change once the call has returned. */
KCC_CUDA_API const char* kcc_cuda_session_add(kcc_cuda_session* session, const kcc_cuda_rows* rows,
                                              int host_logits);
/* Waits for all that was added. The views live until the next begin: for each add, one after the
 * other, values [kcc_cuda_values()][rows], argmax [2][rows], status [rows]. */
KCC_CUDA_API const char* kcc_cuda_session_wait(kcc_cuda_session* session, const double** values,
                                               const int32_t** argmax, const int32_t** status);
/* Copies from the device to the host, after what was enqueued. */
KCC_CUDA_API const char* kcc_cuda_session_read(kcc_cuda_session* session, const void* from,
                                               size_t bytes, void* to);

#ifdef __cplusplus
}
#endif

#endif /* KCC_H */
