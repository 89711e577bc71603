#include "kcc/kernel/http_pool.h"

#include <curl/curl.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/kernel/ca_file.h"
#include "kcc/kernel/secret.h"
#include "kcc/kernel/uri.h"

namespace kcc {
namespace {

constexpr size_t kServerWordsMax = 300;
constexpr int kPollMsMax = 1000;

struct EasyFree {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct MultiFree {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct ListFree {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// One call: its handle, what it sends and what has come back.
struct Transfer {
  size_t index = 0;
  int attempt = 0;
  double start_at_s = 0;  // not before; 0: at once
  HttpCall call;
  std::unique_ptr<CURL, EasyFree> easy;
  std::string received;
  size_t bytes_max = 0;
  bool too_large = false;
  bool out_of_memory = false;
  bool under_way = false;
};

size_t Receive(char* bytes, size_t one, size_t count, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  const size_t size = one * count;
  if (transfer->received.size() + size > transfer->bytes_max) {
    transfer->too_large = true;
    return 0;
  }
  try {
    transfer->received.append(bytes, size);
  } catch (const std::exception&) {  // libcurl is C: nothing may be thrown through it
    transfer->out_of_memory = true;
    return 0;
  }
  return size;
}

bool IsRetriedFailure(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
      return true;
    default:
      return false;
  }
}

// error.message of an OpenAI error, or the body; its beginning. The key goes first, since a cut
// through it would show its first half.
std::string ServerWords(const std::string& body, std::string_view key) {
  json::parser parser;
  const auto root = ParseJson(parser, body);
  json::object object;
  std::string words;
  if (root.has_value() && root->get(object) == simdjson::SUCCESS) {
    const auto error = JsonMember(object, "error");
    json::object inner;
    if (error && error->get(inner) == simdjson::SUCCESS) {
      words = JsonText(JsonMember(inner, "message"));
    }
    if (words.empty()) words = JsonText(error);
    if (words.empty()) words = JsonText(JsonMember(object, "message"));
  }
  if (words.empty()) words = body;
  words = WithoutSecret(words, key).substr(0, kServerWordsMax);
  for (char& c : words) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return words;
}

// What a connection that does not come about is likely to mean.
std::string ConnectionRemedy(CURLcode code, bool secure, bool heard_nothing) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
      return std::string("; ") + kNobodyListens;
    case CURLE_COULDNT_RESOLVE_HOST:
      return "; is the name of the host right?";
    case CURLE_SSL_CONNECT_ERROR:
      return "; if the server does not speak TLS, write openai+http://";
    case CURLE_PEER_FAILED_VERIFICATION:
      return "; ca_file=PATH names certificates to trust";
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return secure || !heard_nothing ? "" : "; if it speaks TLS, write openai+https://";
    default:
      return "";
  }
}

std::string_view Remedy(int status) {
  switch (status) {
    case 401:
    case 403:
      return "; is it the key? give api_key_file=PATH";
    case 404:
      return "; is it the right server=, and are its routes switched on?";
    case 413:
      return "; the request is larger than the server takes";
    default:
      return "";
  }
}

}  // namespace

bool IsRetriedStatus(int status) {
  return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

Result<int64_t> RetryWaitMs(const HttpOptions& options, int attempt, double retry_after_s) {
  if (retry_after_s > options.retry_after_s_max) {
    return IoError("the server asks to come back after " + ReadableNumber(retry_after_s) +
                   " s, longer than the " + ReadableNumber(options.retry_after_s_max) +
                   " s that are waited for");
  }
  int64_t wait_ms = options.retry_wait_ms;
  for (int i = 1; i < attempt && wait_ms < options.retry_wait_ms_max; ++i) wait_ms *= 2;
  wait_ms = std::min(wait_ms, options.retry_wait_ms_max);
  return std::max(wait_ms, static_cast<int64_t>(std::ceil(retry_after_s * 1e3)));
}

// Which statuses are replies and no failures.
enum class Statuses : uint8_t {
  kOk,     // 200
  kFinal,  // and those after which a call is not repeated
  kAny,    // and those that stand after the last repetition
};

struct HttpPool::State {
  HttpOptions options;
  SystemClock clock;
  std::unique_ptr<curl_slist, ListFree> headers;
  std::unique_ptr<CURLM, MultiFree> multi;
  std::vector<std::unique_ptr<CURL, EasyFree>> idle;  // handles are kept for their connections

  Result<> Begin(Transfer* transfer);
  void Drop(Transfer* transfer);
  Error Failure(const Transfer& transfer, const std::string& what) const;
  // The reply of a finished transfer; none if it was put back for another attempt.
  Result<std::optional<HttpReply>> Finish(Transfer* transfer, CURLcode code, Statuses wanted);
  Result<> Wait(double until_s);
  Result<> Run(size_t count, const MakeCall& make, Statuses wanted, const TakeReply& take,
               const GiveUp& give_up);
};

Error HttpPool::State::Failure(const Transfer& transfer, const std::string& what) const {
  std::string message = options.base_url + transfer.call.path + ": " + what;
  if (transfer.attempt > 1) message += " (after " + std::to_string(transfer.attempt) + " attempts)";
  return IoError(WithoutSecret(message, options.api_key));
}

Result<> HttpPool::State::Begin(Transfer* transfer) {
  if (idle.empty()) {
    transfer->easy.reset(curl_easy_init());
    if (!transfer->easy) return IoError("libcurl has no memory for another connection");
  } else {
    transfer->easy = std::move(idle.back());
    idle.pop_back();
    curl_easy_reset(transfer->easy.get());
  }
  ++transfer->attempt;
  transfer->received.clear();
  transfer->too_large = false;
  transfer->bytes_max = options.body_bytes_max;
  CURL* easy = transfer->easy.get();
  const std::string url = options.base_url + transfer->call.path;
  // Texts are copied, which can fail; a call without one of them would go elsewhere than it should.
  bool set = curl_easy_setopt(easy, CURLOPT_URL, url.c_str()) == CURLE_OK;
  set = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK && set;
  set = curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK && set;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(options.connect_timeout_s * 1e3));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout_s * 1e3));
  curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE,
                   static_cast<curl_off_t>(options.body_bytes_max));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, Receive);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
  if (!options.ca_file.empty()) {
    set = curl_easy_setopt(easy, CURLOPT_CAINFO, options.ca_file.c_str()) == CURLE_OK && set;
  }
  if (!set) return IoError("libcurl has no memory for another call");
  if (!transfer->call.body.empty()) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer->call.body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(transfer->call.body.size()));
  }
  if (curl_multi_add_handle(multi.get(), easy) != CURLM_OK) {
    return IoError("libcurl does not take another call");
  }
  transfer->under_way = true;
  return {};
}

void HttpPool::State::Drop(Transfer* transfer) {
  if (!transfer->under_way) return;
  curl_multi_remove_handle(multi.get(), transfer->easy.get());
  transfer->under_way = false;
  // Room for all is taken at the start: this runs on the way out too, where nothing may throw.
  if (idle.size() < idle.capacity()) idle.push_back(std::move(transfer->easy));
  transfer->easy.reset();
}

Result<std::optional<HttpReply>> HttpPool::State::Finish(Transfer* transfer, CURLcode code,
                                                         Statuses wanted) {
  long status = 0;
  curl_off_t retry_after_s = 0;
  double seconds = 0;
  curl_easy_getinfo(transfer->easy.get(), CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(transfer->easy.get(), CURLINFO_RETRY_AFTER, &retry_after_s);
  curl_easy_getinfo(transfer->easy.get(), CURLINFO_TOTAL_TIME, &seconds);
  Drop(transfer);
  if (transfer->out_of_memory) throw std::bad_alloc();
  if (transfer->too_large || code == CURLE_FILESIZE_EXCEEDED) {
    return Failure(*transfer, "the answer is larger than " +
                                  std::to_string(options.body_bytes_max >> 20) +
                                  " MiB; ask for less (top=, shorter requests) or raise body_mib=");
  }
  if (code == CURLE_OPERATION_TIMEDOUT) {
    return Failure(*transfer, "no answer within " + ReadableNumber(options.timeout_s) +
                                  " s; is the server stuck or loaded? raise timeout= (seconds)");
  }
  const auto code_status = static_cast<int>(status);
  const bool broken = code != CURLE_OK;
  const bool last = transfer->attempt > options.retries_max;
  if (!broken &&
      (code_status == 200 || (wanted != Statuses::kOk && !IsRetriedStatus(code_status)) ||
       (wanted == Statuses::kAny && last))) {
    return std::optional(HttpReply{code_status, seconds, std::move(transfer->received)});
  }
  std::string what;
  if (broken) {
    what = code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING
               ? "the server closed the connection before its answer was complete"
               : "no connection: " + std::string(curl_easy_strerror(code));
    what +=
        ConnectionRemedy(code, options.base_url.starts_with("https:"), transfer->received.empty());
  } else {
    what = "status " + std::to_string(code_status) + ": " +
           ServerWords(transfer->received, options.api_key) + std::string(Remedy(code_status));
  }
  if (!(broken ? IsRetriedFailure(code) : IsRetriedStatus(code_status)) || last) {
    return Failure(*transfer, what);
  }
  const auto wait_ms = RetryWaitMs(options, transfer->attempt, static_cast<double>(retry_after_s));
  if (!wait_ms.has_value()) return Failure(*transfer, what + "; " + wait_ms.error().message());
  transfer->start_at_s = clock.MonotonicSeconds() + static_cast<double>(*wait_ms) / 1e3;
  return std::optional<HttpReply>();
}

Result<> HttpPool::State::Wait(double until_s) {
  const double wait_ms = std::ceil((until_s - clock.MonotonicSeconds()) * 1e3);
  curl_waitfd stop{};
  stop.fd = options.stop_fd;
  stop.events = CURL_WAIT_POLLIN;
  const unsigned extra = options.stop_fd >= 0 ? 1 : 0;
  const auto timeout_ms = static_cast<int>(std::clamp(wait_ms, 0.0, double{kPollMsMax}));
  if (curl_multi_poll(multi.get(), &stop, extra, timeout_ms, nullptr) != CURLM_OK) {
    return IoError("libcurl could not wait for the server");
  }
  if (extra > 0 && stop.revents != 0) return InterruptedError();
  return {};
}

Result<> HttpPool::State::Run(size_t count, const MakeCall& make, Statuses wanted,
                              const TakeReply& take, const GiveUp& give_up) {
  const double deadline_s = clock.MonotonicSeconds() + options.batch_timeout_s;
  // On every way out, no call stays under way.
  struct Transfers {
    State* state;
    std::vector<std::unique_ptr<Transfer>> list;
    ~Transfers() {
      for (const auto& transfer : list) state->Drop(transfer.get());
    }
  } active{this, {}};
  size_t next = 0;
  size_t done = 0;
  while (done < count) {
    while (next < count && active.list.size() < static_cast<size_t>(options.in_flight_max)) {
      active.list.push_back(std::make_unique<Transfer>());
      active.list.back()->index = next++;
    }
    const double now_s = clock.MonotonicSeconds();
    if (now_s > deadline_s) {
      return IoError(options.base_url + ": " + std::to_string(done) + " of " +
                     std::to_string(count) + " calls were answered within " +
                     ReadableNumber(options.batch_timeout_s) + " s; the batch is given up");
    }
    double wake_s = deadline_s;
    for (const auto& transfer : active.list) {
      if (transfer->under_way) continue;
      if (transfer->start_at_s <= now_s) {
        transfer->call = make(transfer->index);
        KCC_TRY_VOID(Begin(transfer.get()));
      } else {
        wake_s = std::min(wake_s, transfer->start_at_s);
      }
    }
    int running = 0;
    if (curl_multi_perform(multi.get(), &running) != CURLM_OK) {
      return IoError("libcurl failed while talking to " + options.base_url);
    }
    bool finished = false;
    int queued = 0;
    while (CURLMsg* message = curl_multi_info_read(multi.get(), &queued)) {
      if (message->msg != CURLMSG_DONE) continue;
      char* user = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
      auto* transfer = static_cast<Transfer*>(static_cast<void*>(user));
      finished = true;
      const CURLcode code = message->data.result;
      Result<std::optional<HttpReply>> reply = Finish(transfer, code, wanted);
      if (!reply.has_value()) {
        if (!give_up) return std::move(reply.error());
        KCC_TRY_VOID(give_up(transfer->index, code == CURLE_OPERATION_TIMEDOUT, reply.error()));
      } else if (!*reply) {
        continue;
      } else {
        KCC_TRY_VOID(take(transfer->index, std::move(**reply)));
      }
      ++done;
      std::erase_if(active.list, [&](const auto& held) { return held.get() == transfer; });
    }
    if (!finished) KCC_TRY_VOID(Wait(wake_s));
  }
  return {};
}

HttpPool::HttpPool(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpPool::~HttpPool() = default;

Result<std::unique_ptr<HttpPool>> HttpPool::Open(HttpOptions options) {
  static std::once_flag once;
  static CURLcode started = CURLE_OK;
  std::call_once(once, [] { started = curl_global_init(CURL_GLOBAL_DEFAULT); });
  if (started != CURLE_OK) return IoError("libcurl does not start");
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  if (state->options.ca_file.empty()) state->options.ca_file = SystemCaFile(kCaFiles);
  state->idle.reserve(static_cast<size_t>(state->options.in_flight_max));
  std::vector<std::string> lines = {"Content-Type: application/json", "Accept: application/json",
                                    "Expect:"};
  if (!state->options.api_key.empty()) {
    lines.push_back("Authorization: Bearer " + state->options.api_key);
  }
  for (const std::string& line : lines) {
    curl_slist* longer = curl_slist_append(state->headers.get(), line.c_str());
    if (longer == nullptr) return IoError("libcurl has no memory for its headers");
    (void)state->headers.release();  // the list starts at the same node, or is new
    state->headers.reset(longer);
  }
  state->multi.reset(curl_multi_init());
  if (!state->multi) return IoError("libcurl does not start");
  curl_multi_setopt(state->multi.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS,
                    static_cast<long>(state->options.in_flight_max));
  curl_multi_setopt(state->multi.get(), CURLMOPT_MAXCONNECTS,
                    static_cast<long>(state->options.in_flight_max));
  return std::unique_ptr<HttpPool>(new HttpPool(std::move(state)));
}

std::string HttpPool::LibraryVersion() { return curl_version(); }

Result<> HttpPool::Run(size_t count, const MakeCall& make, const TakeReply& take,
                       const GiveUp& give_up) {
  return state_->Run(count, make, Statuses::kOk, take, give_up);
}

Result<> HttpPool::RunForAnyStatus(size_t count, const MakeCall& make, const TakeReply& take,
                                   const GiveUp& give_up) {
  return state_->Run(count, make, Statuses::kAny, take, give_up);
}

void HttpPool::SetRunLimit(double seconds) { state_->options.batch_timeout_s = seconds; }

Result<HttpReply> HttpPool::Ask(const HttpCall& call) {
  HttpReply answer;
  KCC_TRY_VOID(state_->Run(
      1, [&](size_t) { return call; }, Statuses::kFinal,
      [&](size_t, HttpReply reply) -> Result<> {
        answer = std::move(reply);
        return {};
      },
      nullptr));
  return answer;
}

}  // namespace kcc
