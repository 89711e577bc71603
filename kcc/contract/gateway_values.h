// Scalars of a gateway's document: text -> address, URL, source, register, JSON. As values.h, every
// function gives the value or says what the text is not, with what to write instead. Internal to
// contract/.
#pragma once

#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/contract/gateway_config.h"
#include "kcc/contract/yaml_document.h"

namespace kcc {

// "127.0.0.1:8080", "localhost:0", "[::1]:8081".
Result<GatewayAddress> ReadAddress(std::string_view text);

// "http://127.0.0.1:8000/v1?x=1". What stands after the host and the port is `path`, as written.
struct UrlWithPath {
  GatewayUrl url;
  std::string path;  // "", "/", "/v1?x=1"
};
Result<UrlWithPath> ReadUrl(std::string_view text);

// "header:X-Session-Id", "body:user", "body:metadata.task". Refuses headers and members that hold
// secrets or texts: what is read here is recorded.
Result<GatewaySource> ReadSource(std::string_view text);

// A register's URI in the one spelling of its meaning: "kcc.db" is "sqlite:kcc.db". Refuses
// passwords.
Result<std::string> ReadRegister(std::string_view text);

// The scalar as JSON: true, false, a number, or a text where it is in quotes or nothing else.
std::string ScalarJson(const YamlNode& scalar);
// The text of a JSON string as ScalarJson writes it; none for other values.
std::optional<std::string> TextOfJson(std::string_view json);

}  // namespace kcc
