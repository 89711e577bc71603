// One connection of a client: requests one after the other, each through an exchange of the core.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kcc/gateway/gateway_exchange.h"
#include "kcc/plane/beast_kernel.h"
#include "kcc/plane/beast_wire.h"
#include "kcc/plane/chunk_reader.h"
#include "kcc/plane/read_buffer.h"
#include "kcc/plane/request_head.h"

namespace kcc::plane {

class PlaneThread;

class ClientConnection final : public Timed, private KernelListener {
 public:
  // `too_many`: it is there to hear that, and no more.
  ClientConnection(PlaneThread& thread, Socket socket, bool too_many);
  ~ClientConnection() override;

  void Start();
  // The plane drains: what waits for a request ends.
  void OnDrain() override;
  // The exchange hears that its client is gone.
  void Abort() override;
  void OnDeadline() override;

 private:
  enum class Phase : uint8_t { kHandshake, kIdle, kHead, kBody, kAnswer, kLinger, kClosed };
  // What follows a write.
  enum class Then : uint8_t { kReadBody, kGoOn, kFinish, kBreakOff };

  std::shared_ptr<ClientConnection> Self();
  // Nothing that is thrown leaves a handler: it costs this connection alone.
  template <class Work>
  void Guard(Work work) {
    if (phase_ == Phase::kClosed) return;
    const std::shared_ptr<Timed> held = shared_from_this();  // what is done may end it
    try {
      work();
    } catch (const std::exception&) {
      Abort();
    }
  }
  void ExpireIn(int64_t ms);

  // beast_client.cc: requests.
  void Read();
  void OnRead(ErrorCodeOf failed, size_t bytes);
  void WatchClient();
  void Parse();
  bool ParseHead();
  void OnHead();
  bool TakeBody();
  void Begin();
  void Refuse(const GatewayAnswer& answer);
  void RefuseBadRequest(const HeadFault& fault);

  // beast_answer.cc: answers.
  void Do(Step step);
  void Send(const UpstreamAsk& ask);
  void SayAnswer(const GatewayAnswer& answer);
  void AppendHead(int status, const HeaderList& headers, std::optional<uint64_t> length);
  void AppendBody(std::string_view bytes);
  void Write(Then then);
  void WriteRest();
  void OnWritten();
  void FinishAnswer();
  void BreakOff();
  void DropKernel();
  void Close();

  // beast_linger.cc: the end of a connection.
  void Linger(bool clean);
  void LingerOn();
  void OnLingerRead();  // of the connection's own read
  void OnLingerDeadline();

  void OnKernelHead(int status, std::span<const HeaderField> headers) override;
  void OnKernelBody(std::string_view bytes) override;
  void OnKernelEnd() override;
  void OnKernelFailure(UpstreamFailure failure) override;
  void OnKernelStale(std::string request) override;

  PlaneThread& thread_;
  const bool too_many_;
  Wire wire_;
  std::string address_;
  uint64_t rate_key_ = 0;
  ReadBuffer in_;
  size_t scanned_ = 0;  // bytes of `in_` in which no head ended
  std::string head_bytes_;
  RequestHead head_;  // views of head_bytes_
  std::string body_;
  std::optional<ChunkReader> chunks_;

  // Itself, while an answer is made and no read is pending that would hold it.
  std::shared_ptr<ClientConnection> held_;
  std::optional<GatewayExchange> exchange_;
  std::shared_ptr<KernelConnection> kernel_;
  size_t kernel_number_ = 0;
  bool kernel_head_only_ = false;

  std::string out_;
  size_t sent_ = 0;  // of `out_`
  Then then_ = Then::kGoOn;
  std::optional<uint64_t> length_;  // of the answer's body, as its head says
  uint64_t body_sent_ = 0;
  uint64_t requests_ = 0;

  // While it lingers; the steady clock's.
  size_t untaken_ = 0;     // bytes of answers that the client's system has not taken
  int64_t taken_us_ = 0;   // when it last took some
  int64_t all_us_ = 0;     // when it had taken all; 0: it has not
  int64_t heard_us_ = 0;   // when something came from it
  bool discards_ = false;  // a read that throws away is pending

  Phase phase_ = Phase::kIdle;
  bool reading_ = false;
  bool writing_ = false;
  bool parsing_ = false;
  bool keep_alive_ = true;
  bool head_said_ = false;  // of this answer
  bool chunked_ = false;
  bool bodyless_ = false;  // to HEAD, or of a status that has no body
};

}  // namespace kcc::plane
