// The tables of gateway_peers.h on PostgreSQL. Their version stands in a table of its own: an older
// or newer kcc is refused before it reads anything.
#include "kcc/base/sha256.h"
#include "kcc/register/gateway_peers.h"
#include "kcc/register/postgres_connection.h"
#include "kcc/register/register_uri.h"

namespace kcc {
namespace {

constexpr int64_t kPeersVersion = 1;

// Two that begin at once wait for each other. Items are numbered while the lock is held, so that
// the order of their numbers is that in which they can be seen.
constexpr const char* kPeersTables = R"(
SELECT pg_advisory_xact_lock(1801675624, hashtext(current_schema()));
CREATE TABLE IF NOT EXISTS kcc_gateways (version BIGINT NOT NULL);
INSERT INTO kcc_gateways SELECT 1 WHERE NOT EXISTS (SELECT FROM kcc_gateways);
CREATE TABLE IF NOT EXISTS kcc_gateway_notice (
  one BIGINT PRIMARY KEY CHECK (one = 1), term BIGINT NOT NULL, instance TEXT NOT NULL,
  boot TEXT NOT NULL, gateway TEXT NOT NULL, documents TEXT NOT NULL, event BIGINT NOT NULL,
  states BIGINT NOT NULL, live TEXT NOT NULL, at TIMESTAMPTZ NOT NULL);
CREATE TABLE IF NOT EXISTS kcc_gateway_state (
  one BIGINT PRIMARY KEY CHECK (one = 1), instance TEXT NOT NULL, documents TEXT NOT NULL,
  observations BIGINT NOT NULL, head TEXT NOT NULL, inbox BIGINT NOT NULL, digest TEXT NOT NULL,
  monitor BYTEA NOT NULL);
CREATE TABLE IF NOT EXISTS kcc_gateway_member (
  instance TEXT NOT NULL, boot TEXT NOT NULL, gateway TEXT NOT NULL, missing TEXT NOT NULL,
  delivered BIGINT NOT NULL, at TIMESTAMPTZ NOT NULL, PRIMARY KEY (instance, boot));
CREATE TABLE IF NOT EXISTS kcc_gateway_inbox (
  sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, instance TEXT NOT NULL,
  boot TEXT NOT NULL, number BIGINT NOT NULL, item TEXT NOT NULL, digest TEXT NOT NULL,
  at TIMESTAMPTZ NOT NULL, UNIQUE (instance, boot, number));)";

// A gateway whose machine is gone must lose the lock before long, and nothing here takes long.
constexpr const char* kPeersSettings =
    "SET tcp_keepalives_idle = 3; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2; "
    "SET statement_timeout = '10s'; SET idle_in_transaction_session_timeout = '20s'";

constexpr const char* kAgeMs = "(extract(epoch FROM clock_timestamp() - at) * 1000)::bigint";

class PostgresPeers final : public GatewayPeers {
 public:
  explicit PostgresPeers(PostgresConnection connection) : connection_(std::move(connection)) {}

  Result<> MakeTables() {
    KCC_TRY_VOID(connection_.Script(kPeersSettings));
    // Looked for first: who may write to them need not be allowed to make tables.
    KCC_TRY(const PostgresRows known,
            connection_.Query("SELECT (CASE WHEN to_regclass('kcc_gateway_inbox') IS NULL THEN 0 "
                              "ELSE 1 END)::bigint"));
    if (known.Integer(0, 0) == 0) {
      KCC_TRY_VOID(Together([&]() -> Result<> { return connection_.Script(kPeersTables); }));
    }
    KCC_TRY(const PostgresRows version, connection_.Query("SELECT max(version) FROM kcc_gateways"));
    const int64_t found = version.count() == 1 ? version.Integer(0, 0) : 0;
    if (found == kPeersVersion) return {};
    return InvalidError("the gateways at this register tell each other by version " +
                            std::to_string(found) + ", and this kcc by version " +
                            std::to_string(kPeersVersion) +
                            "; use one version of kcc for all of them",
                        Place{connection_.name()});
  }

  Result<bool> Claim() override {
    if (claimed_) return true;
    // The number is "kccg", as of a register that one gateway alone may have.
    KCC_TRY(const PostgresRows rows,
            connection_.Query("SELECT (CASE WHEN pg_try_advisory_lock(1801675623, "
                              "hashtext(current_schema())) THEN 1 ELSE 0 END)::bigint"));
    claimed_ = rows.count() == 1 && rows.Integer(0, 0) == 1;
    return claimed_;
  }

  Result<std::optional<PeerNotice>> ReadNotice() override;
  Result<std::optional<PeerState>> ReadState() override;
  Result<std::vector<PeerItem>> ReadItems(int64_t after, int64_t limit) override;
  Result<std::vector<PeerMember>> ReadMembers() override;
  Result<> WriteNotice(const PeerNotice& notice) override;
  Result<> WriteState(const PeerState& state, std::span<const PeerMember> settled) override;
  Result<> Clear() override {
    KCC_TRY_VOID(NeedClaim());
    return Together([&]() -> Result<> {
      return connection_.Script(
          "DELETE FROM kcc_gateway_state; DELETE FROM kcc_gateway_inbox; "
          "DELETE FROM kcc_gateway_member");
    });
  }
  Result<> Deliver(const PeerMember& member, std::span<const NewPeerItem> items) override;
  Result<> Leave(const PeerMember& member) override {
    return connection_.Execute("DELETE FROM kcc_gateway_member WHERE instance = $1 AND boot = $2",
                               {member.instance, member.boot});
  }

 private:
  // In one transaction.
  template <class Steps>
  Result<> Together(Steps steps) {
    KCC_TRY_VOID(connection_.Script("BEGIN"));
    Result<> done = steps();
    if (done.has_value()) done = connection_.Script("COMMIT");
    if (!done.has_value()) connection_.RollbackQuietly();
    return done;
  }
  // The lock is of this connection: what is written over it, once it had the lock, is written by
  // its holder.
  Result<> NeedClaim() const {
    if (claimed_) return {};
    return IoError("this gateway does not decide any more", Place{connection_.name()});
  }

  PostgresConnection connection_;
  bool claimed_ = false;
};

Result<std::optional<PeerNotice>> PostgresPeers::ReadNotice() {
  KCC_TRY(const PostgresRows rows,
          connection_.Query(std::string("SELECT term, instance, boot, gateway, documents, event, "
                                        "states, live, ") +
                            kAgeMs + " FROM kcc_gateway_notice"));
  if (rows.count() == 0) return std::optional<PeerNotice>();
  PeerNotice notice;
  notice.term = rows.Integer(0, 0);
  notice.instance = rows.Text(0, 1);
  notice.boot = rows.Text(0, 2);
  notice.gateway = rows.Text(0, 3);
  notice.documents = rows.Text(0, 4);
  notice.event = rows.Integer(0, 5);
  notice.states = rows.Integer(0, 6);
  notice.live = rows.Text(0, 7);
  notice.age_ms = rows.Integer(0, 8);
  return std::optional<PeerNotice>(std::move(notice));
}

Result<std::optional<PeerState>> PostgresPeers::ReadState() {
  KCC_TRY(const PostgresRows rows,
          connection_.Query("SELECT instance, documents, observations, head, inbox, digest, "
                            "monitor FROM kcc_gateway_state"));
  if (rows.count() == 0) return std::optional<PeerState>();
  PeerState state;
  state.instance = rows.Text(0, 0);
  state.documents = rows.Text(0, 1);
  state.observations = rows.Integer(0, 2);
  state.head = rows.Text(0, 3);
  state.inbox = rows.Integer(0, 4);
  state.monitor = rows.Text(0, 6);
  if (Sha256Of(state.monitor) != rows.Text(0, 5)) {
    return BrokenEvidenceError("the recorded state of the monitor does not have its digest",
                               Place{connection_.name()});
  }
  return std::optional<PeerState>(std::move(state));
}

Result<std::vector<PeerItem>> PostgresPeers::ReadItems(int64_t after, int64_t limit) {
  KCC_TRY(
      const PostgresRows rows,
      connection_.Query(std::string("SELECT sequence, instance, boot, item, digest, ") + kAgeMs +
                            " FROM kcc_gateway_inbox WHERE sequence > $1 ORDER BY sequence "
                            "LIMIT $2",
                        {after, limit}));
  std::vector<PeerItem> items;
  for (int row = 0; row < rows.count(); ++row) {
    PeerItem item;
    item.sequence = rows.Integer(row, 0);
    item.instance = rows.Text(row, 1);
    item.boot = rows.Text(row, 2);
    item.text = rows.Text(row, 3);
    item.sound = Sha256Of(item.text) == rows.Text(row, 4);
    item.waited_ms = rows.Integer(row, 5);
    items.push_back(std::move(item));
  }
  return items;
}

Result<std::vector<PeerMember>> PostgresPeers::ReadMembers() {
  KCC_TRY(const PostgresRows rows,
          connection_.Query(std::string("SELECT instance, boot, gateway, missing, ") + kAgeMs +
                            " FROM kcc_gateway_member ORDER BY instance, boot"));
  std::vector<PeerMember> members;
  members.reserve(static_cast<size_t>(rows.count()));
  for (int row = 0; row < rows.count(); ++row) {
    members.push_back({std::string(rows.Text(row, 0)), std::string(rows.Text(row, 1)),
                       std::string(rows.Text(row, 2)), std::string(rows.Text(row, 3)),
                       rows.Integer(row, 4)});
  }
  return members;
}

Result<> PostgresPeers::WriteNotice(const PeerNotice& notice) {
  KCC_TRY_VOID(NeedClaim());
  return connection_.Execute(
      "INSERT INTO kcc_gateway_notice VALUES (1,$1,$2,$3,$4,$5,$6,$7,$8,clock_timestamp()) ON "
      "CONFLICT (one) DO UPDATE SET term = excluded.term, instance = excluded.instance, boot = "
      "excluded.boot, gateway = excluded.gateway, documents = excluded.documents, event = "
      "excluded.event, states = excluded.states, live = excluded.live, at = excluded.at",
      {notice.term, notice.instance, notice.boot, notice.gateway, notice.documents, notice.event,
       notice.states, notice.live});
}

Result<> PostgresPeers::WriteState(const PeerState& state, std::span<const PeerMember> settled) {
  KCC_TRY_VOID(NeedClaim());
  const std::string digest = Sha256Of(state.monitor);
  return Together([&]() -> Result<> {
    KCC_TRY_VOID(connection_.Execute(
        "INSERT INTO kcc_gateway_state VALUES (1,$1,$2,$3,$4,$5,$6,$7) ON CONFLICT (one) DO UPDATE "
        "SET instance = excluded.instance, documents = excluded.documents, observations = "
        "excluded.observations, head = excluded.head, inbox = excluded.inbox, digest = "
        "excluded.digest, monitor = excluded.monitor",
        {state.instance, state.documents, state.observations, state.head, state.inbox, digest,
         PostgresParameter::Bytes(state.monitor)}));
    KCC_TRY_VOID(
        connection_.Execute("DELETE FROM kcc_gateway_inbox WHERE sequence <= $1", {state.inbox}));
    for (const PeerMember& member : settled) KCC_TRY_VOID(Leave(member));
    return {};
  });
}

Result<> PostgresPeers::Deliver(const PeerMember& member, std::span<const NewPeerItem> items) {
  return Together([&]() -> Result<> {
    KCC_TRY_VOID(
        connection_.Script("SELECT pg_advisory_xact_lock(1801675625, hashtext(current_schema()))"));
    KCC_TRY_VOID(connection_.Execute(
        "INSERT INTO kcc_gateway_member VALUES ($1,$2,$3,$4,0,clock_timestamp()) ON CONFLICT "
        "(instance, boot) DO UPDATE SET missing = excluded.missing, at = excluded.at",
        {member.instance, member.boot, member.gateway, member.missing}));
    for (const NewPeerItem& item : items) {
      KCC_TRY_VOID(connection_.Execute(
          "INSERT INTO kcc_gateway_inbox (instance, boot, number, item, digest, at) SELECT "
          "$1,$2,$3,$4,$5,clock_timestamp() FROM kcc_gateway_member WHERE instance = $1 AND boot "
          "= $2 AND delivered < $3",
          {member.instance, member.boot, item.number, item.text, Sha256Of(item.text)}));
    }
    if (items.empty()) return {};
    return connection_.Execute(
        "UPDATE kcc_gateway_member SET delivered = greatest(delivered, $3) WHERE instance = $1 AND "
        "boot = $2",
        {member.instance, member.boot, items.back().number});
  });
}

}  // namespace

Result<std::unique_ptr<GatewayPeers>> GatewayPeers::Open(const std::string& uri) {
  KCC_TRY(const RegisterUri parsed, ParseRegisterUri(uri));
  if (!parsed.postgres) return InvalidError("gateways share a register in PostgreSQL alone");
  KCC_TRY(PostgresConnection connection, PostgresConnection::Open(parsed.target));
  auto peers = std::make_unique<PostgresPeers>(std::move(connection));
  KCC_TRY_VOID(peers->MakeTables());
  return std::unique_ptr<GatewayPeers>(std::move(peers));
}

}  // namespace kcc
