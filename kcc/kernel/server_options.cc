#include "kcc/kernel/server_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "kcc/base/file.h"
#include "kcc/base/strings.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

constexpr size_t kKeyBytesMax = 4096;
constexpr std::string_view kBody = "body.";

// Which servers' vocabulary only the user knows.
std::string SilentServers() {
  std::vector<std::string_view> titles;
  for (const ServerDialect* server : kServers) {
    if (!server->tells_vocabulary) titles.push_back(server->title);
  }
  return JoinWords(titles) + (titles.size() == 1 ? " does" : " do") + " not tell it";
}

// clang-format off
const std::vector<ServerOptionRow>& Table() {
  static const std::string servers = ServerChoices();
  static const std::string vocabulary = "entries of the vocabulary; " + SilentServers();
  static const std::vector<ServerOptionRow> table = {
      {"server", servers, "whose dialect the server speaks; required"},
      {"model", "NAME", "which model, where the server has several"},
      {"vocab_size", "N", vocabulary},
      {"top", "K", "alternatives asked for a token (20); 0: the token's own log-prob alone"},
      {"path", "prefill|decode", "which kernels of the server compute the numbers"},
      {"semantics", "raw|temperature-scaled|processed", "what the log-probs must mean (raw); the probe refuses others"},
      {"temperature", "T", "at which they are asked (1)"},
      {"mask_missing", "true|false", "leave out tokens without a log-prob instead of failing (false)"},
      {"model_digest", "sha256:…", "the weights the server is known to run"},
      {"probe", "on|off|ID,ID,…", "check semantics and alignment at the start (on), with these token ids"},
      {"end", "ID,…", "llama.cpp: further token ids that end a generation, beside its eos"},
      {"in_flight", "N", "calls at once (64)"},
      {"retries", "N", "repetitions of a failed call (4)"},
      {"retry_wait_ms", "N", "before the first repetition (250); doubles up to 8 s"},
      {"timeout", "SECONDS", "for one answer"},
      {"body_mib", "N", "largest answer (64)"},
      {"api_key_file", "PATH", "a file with the key, sent as a bearer token"},
      {"ca_file", "PATH", "certificates to trust instead of the system's"},
      {"body.NAME", "JSON", "a further field of every request, if the server's list has it"},
  };
  return table;
}
// clang-format on

class Reader {
 public:
  explicit Reader(const KernelUri& uri) : uri_(uri) {}

  Error Bad(std::string_view name, const std::string& must) const {
    return InvalidError(std::string(name) + "=" + *uri_.Find(name) + ": it must be " + must,
                        Place{uri_.text});
  }

  Result<> Number(std::string_view name, double low, double high, double* value) const {
    const std::string* text = uri_.Find(name);
    if (text == nullptr) return {};
    const auto number = ParseNumber(*text);
    if (!number || *number < low || *number > high) {
      return Bad(name, "a number from " + ShortestNumber(low) + " to " + ShortestNumber(high));
    }
    *value = *number;
    return {};
  }

  template <class Integer>
  Result<> Whole(std::string_view name, double low, double high, Integer* value) const {
    if (uri_.Find(name) == nullptr) return {};
    auto number = static_cast<double>(*value);
    KCC_TRY_VOID(Number(name, low, high, &number));
    if (number != std::floor(number)) return Bad(name, "a whole number");
    *value = static_cast<Integer>(number);
    return {};
  }

  Result<> Ids(std::string_view name, std::vector<int32_t>* ids) const {
    std::string_view rest = *uri_.Find(name);
    while (!rest.empty()) {
      const std::string_view piece = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), piece.size() + 1));
      int32_t id = 0;
      const auto [end, failure] = std::from_chars(piece.data(), piece.data() + piece.size(), id);
      if (failure != std::errc() || end != piece.data() + piece.size() || id < 0) {
        return Bad(name, "token ids joined by commas");
      }
      ids->push_back(id);
    }
    return {};
  }

 private:
  const KernelUri& uri_;
};

Result<> CheckNames(const KernelUri& uri) {
  std::vector<std::string_view> known;
  known.reserve(Table().size() + uri.options.size());
  for (const ServerOptionRow& row : Table()) known.push_back(row.name);
  for (const KernelUri::Option& option : uri.options) {
    if (option.name.starts_with(kBody)) known.push_back(option.name);
  }
  return uri.CheckOptions(known);
}

Result<const ServerDialect*> ReadServer(const KernelUri& uri) {
  const std::string* name = uri.Find("server");
  if (name == nullptr) {
    return InvalidError(
        "say whose dialect the server speaks: server=" + JoinWords(ServerNames(), "or"),
        Place{uri.text});
  }
  if (const ServerDialect* server = FindServer(*name)) return server;
  return InvalidError(
      "there is no server '" + *name + "'; it is one of " + JoinWords(ServerNames()),
      Place{uri.text});
}

// What stands in an address that was copied from elsewhere: another scheme, a route of the API, a
// port that is none. `rest` is "//host:port/path".
Result<> CheckPasted(const KernelUri& uri, std::string_view rest) {
  const std::string scheme = uri.scheme + ":";
  for (const std::string_view other : {"//http://", "//https://", "//openai+http"}) {
    if (!rest.starts_with(other)) continue;
    const std::string_view host = rest.substr(rest.find("://") + 1);
    return InvalidError(
        "two schemes stand in the address; write " + scheme + std::string(host) + "?server=…",
        Place{uri.text});
  }
  const std::string_view authority = rest.substr(0, rest.find('/', 2));
  if (const size_t route = rest.find("/v1");
      route != std::string_view::npos && (rest.size() == route + 3 || rest[route + 3] == '/')) {
    return InvalidError("kcc adds the routes itself: leave out " + std::string(rest.substr(route)) +
                            " and write " + scheme + std::string(rest.substr(0, route)) +
                            "?server=…",
                        Place{uri.text});
  }
  const size_t colon = authority.rfind(':');
  if (colon == std::string_view::npos || authority.ends_with(']')) return {};  // [::1]
  const std::string_view digits = authority.substr(colon + 1);
  int port = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failure == std::errc() && end == digits.data() + digits.size() && port > 0 && port < 65536) {
    return {};
  }
  return InvalidError("'" + std::string(digits) + "' is no port; it is a number from 1 to 65535",
                      Place{uri.text});
}

// "openai+http" and "//host:port/" -> "http://host:port".
Result<std::string> ReadBaseUrl(const KernelUri& uri) {
  std::string_view rest = uri.rest;
  const bool secure = uri.scheme == "openai+https";
  if (!rest.starts_with("//") || rest.size() == 2) {
    return InvalidError("the server's address is " + uri.scheme + "://HOST:PORT", Place{uri.text});
  }
  while (rest.ends_with('/') && rest.size() > 2) rest.remove_suffix(1);
  const auto bad = [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == '#'; };
  if (rest.find('@') != std::string_view::npos || std::any_of(rest.begin(), rest.end(), bad)) {
    return InvalidError(
        "the server's address holds no user, password, blank or fragment; a key comes from "
        "api_key_file=PATH",
        Place{uri.scheme});  // the text may hold a password
  }
  KCC_TRY_VOID(CheckPasted(uri, rest));
  return (secure ? "https:" : "http:") + std::string(rest);
}

Result<std::string> ReadKey(const std::string& path) {
  KCC_TRY(std::string key, ReadFile(path, kKeyBytesMax));
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) {
    key.pop_back();
  }
  const auto bad = [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; };
  if (key.empty() || std::any_of(key.begin(), key.end(), bad)) {
    return InvalidError("the file must hold one key and nothing else", Place{path});
  }
  return key;
}

Result<> ReadMeaning(const KernelUri& uri, const Reader& reader, ServerOptions* options) {
  if (const std::string* path = uri.Find("path")) {
    options->path = ParseTracePath(*path);
    if (!options->path) return reader.Bad("path", "prefill or decode");
  }
  if (const std::string* word = uri.Find("semantics")) {
    const auto semantics = ParseLogprobSemantics(*word);
    if (!semantics) return reader.Bad("semantics", "raw, temperature-scaled or processed");
    options->semantics = *semantics;
  }
  if (const std::string* word = uri.Find("mask_missing")) {
    if (*word != "true" && *word != "false") return reader.Bad("mask_missing", "true or false");
    options->mask_missing = *word == "true";
  }
  if (const std::string* word = uri.Find("probe")) {
    options->probe = *word != "off";
    if (*word != "off" && *word != "on") {
      KCC_TRY_VOID(reader.Ids("probe", &options->probe_tokens));
      if (options->probe_tokens.size() < 3) return reader.Bad("probe", "at least three token ids");
    }
  }
  if (uri.Find("end") != nullptr) KCC_TRY_VOID(reader.Ids("end", &options->end));
  KCC_TRY_VOID(
      reader.Whole("vocab_size", 1, static_cast<double>(kVocabSizeMax), &options->vocab_size));
  KCC_TRY_VOID(reader.Whole("top", 0, 1 << 20, &options->top));
  return reader.Number("temperature", 0.01, 100, &options->temperature);
}

}  // namespace

std::span<const ServerOptionRow> ServerOptionTable() { return Table(); }

Result<HttpOptions> ReadHttpOptions(const KernelUri& uri, const KernelOpenOptions& open) {
  HttpOptions http;
  KCC_TRY(http.base_url, ReadBaseUrl(uri));
  KCC_TRY_VOID(CheckNames(uri));
  const Reader reader(uri);
  http.batch_timeout_s = open.batch_timeout_s;
  http.timeout_s = open.batch_timeout_s;
  http.stop_fd = open.stop_fd;
  size_t mib = http.body_bytes_max >> 20;
  KCC_TRY_VOID(reader.Whole("in_flight", 1, 1024, &http.in_flight_max));
  KCC_TRY_VOID(reader.Whole("retries", 0, 20, &http.retries_max));
  KCC_TRY_VOID(reader.Whole("retry_wait_ms", 1, 60000, &http.retry_wait_ms));
  KCC_TRY_VOID(reader.Whole("body_mib", 1, 65536, &mib));
  KCC_TRY_VOID(reader.Number("timeout", 0.01, 86400, &http.timeout_s));
  http.body_bytes_max = mib << 20;
  http.retry_wait_ms_max = std::max(http.retry_wait_ms, http.retry_wait_ms_max);
  if (const std::string* path = uri.Find("ca_file")) http.ca_file = *path;
  if (const std::string* path = uri.Find("api_key_file")) {
    KCC_TRY(http.api_key, ReadKey(*path));
  }
  return http;
}

Result<ServerOptions> ReadServerOptions(const KernelUri& uri, const KernelOpenOptions& open) {
  ServerOptions options;
  KCC_TRY_VOID(ReadBaseUrl(uri));  // what is wrong with the address is said before anything else
  KCC_TRY_VOID(CheckNames(uri));
  KCC_TRY(options.server, ReadServer(uri));
  KCC_TRY_VOID(ReadMeaning(uri, Reader(uri), &options));
  KCC_TRY(options.http, ReadHttpOptions(uri, open));
  options.start_timeout_s = open.start_timeout_s;
  options.clock = open.clock;
  if (const std::string* model = uri.Find("model")) options.model = *model;
  if (const std::string* digest = uri.Find("model_digest")) options.model_digest = *digest;
  for (const KernelUri::Option& option : uri.options) {
    if (option.name.starts_with(kBody)) {
      options.fields.push_back({option.name.substr(kBody.size()), option.value});
    }
  }
  return options;
}

}  // namespace kcc
