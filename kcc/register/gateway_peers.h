// What gateways at one register in PostgreSQL tell each other, beside its log: which of them
// decides, what its monitor has come to, and the evidence that the others have measured. Tables of
// their own (docs/register.md "Gateways"): they are passed through and not kept, and no verdict of
// the past rests on them. What is to be kept, the route, is an event of the log.
//
// One object is one connection, for one thread. The one that decides is the one whose connection
// holds an advisory lock of the schema; it ends with the connection, and with the process however
// that ends. What only it may write goes over this connection, so that a gateway that has lost the
// lock cannot write.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

// What the gateway that decides says of itself. JSON and digests are the gateways' own.
struct PeerNotice {
  int64_t term = 0;  // how often one began to decide
  std::string instance;
  std::string boot;
  std::string gateway;    // its name
  std::string documents;  // what a gateway must have alike to follow it
  int64_t event = 0;      // of the register's log, with the route in force; 0: none yet
  int64_t states = 0;     // grows with every state that is recorded
  std::string live;
  int64_t age_ms = 0;  // since it was written, by the server's clock; not written
};

// The monitor's state after `observations`, and after everything that others delivered up to
// `inbox`.
struct PeerState {
  std::string instance;   // whose
  std::string documents;  // it is of
  int64_t observations = 0;
  std::string head;  // of the decision log there
  int64_t inbox = 0;
  std::string monitor;  // Monitor::Save
};

// Evidence of another gateway.
struct PeerItem {
  int64_t sequence = 0;  // in the order in which they came
  std::string instance, boot;
  std::string text;
  bool sound = true;      // its bytes have the digest that they were delivered with
  int64_t waited_ms = 0;  // since it was delivered, by the server's clock
};
struct NewPeerItem {
  int64_t number = 0;  // of its gateway's process, growing
  std::string text;
};

// A process of a gateway, and what would be missing if it ended now.
struct PeerMember {
  std::string instance, boot, gateway;
  std::string missing;  // JSON
  int64_t age_ms = 0;   // since it was heard of
};

class GatewayPeers {
 public:
  // Makes the tables where there are none. Of a register in PostgreSQL alone.
  static Result<std::unique_ptr<GatewayPeers>> Open(const std::string& uri);

  GatewayPeers() = default;
  virtual ~GatewayPeers() = default;
  GatewayPeers(const GatewayPeers&) = delete;
  GatewayPeers& operator=(const GatewayPeers&) = delete;

  // True: this connection has the lock, from now on or already.
  virtual Result<bool> Claim() = 0;

  // None: nobody has ever decided here.
  virtual Result<std::optional<PeerNotice>> ReadNotice() = 0;
  virtual Result<std::optional<PeerState>> ReadState() = 0;
  // In the order of their sequence, those after `after`.
  virtual Result<std::vector<PeerItem>> ReadItems(int64_t after, int64_t limit) = 0;
  virtual Result<std::vector<PeerMember>> ReadMembers() = 0;

  // Of the one that decides; kIo where this connection has not the lock.
  virtual Result<> WriteNotice(const PeerNotice& notice) = 0;
  // Removes, in the same step, the items up to `state.inbox` and the members in `settled`.
  virtual Result<> WriteState(const PeerState& state, std::span<const PeerMember> settled) = 0;
  // What others delivered under other documents, which nobody can fold.
  virtual Result<> Clear() = 0;

  // Tells of this process, and adds its items, all or none; one that is there already is not added
  // again, so that a step whose answer was lost can be repeated.
  virtual Result<> Deliver(const PeerMember& member, std::span<const NewPeerItem> items) = 0;
  virtual Result<> Leave(const PeerMember& member) = 0;
};

}  // namespace kcc
