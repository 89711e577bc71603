// Where the system keeps the certificates that it trusts.
//
// libcurl has one place compiled in, that of the system it was built on. A program that is carried
// to another system looks at the usual places itself.
#pragma once

#include <array>
#include <span>
#include <string>

namespace kcc {

// Debian, Ubuntu and Arch; Fedora and RHEL, in two releases; openSUSE; Alpine.
inline constexpr std::array<const char*, 5> kCaFiles = {
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem"};

// The first that is a file, or "": libcurl's own place then counts.
std::string SystemCaFile(std::span<const char* const> places);

}  // namespace kcc
