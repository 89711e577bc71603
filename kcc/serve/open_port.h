// A port to listen at. For serve_beast.cc.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

#include "kcc/base/result.h"

namespace kcc {

// Port 0: any that is free. What clients call it: "http://127.0.0.1:8000".
inline Result<std::string> OpenPort(const std::string& host, uint16_t port,
                                    boost::asio::ip::tcp::acceptor* acceptor) {
  boost::system::error_code failed;
  const boost::asio::ip::address address =
      boost::asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, failed);
  if (failed) return InvalidError("'" + host + "' is no address; use 127.0.0.1 or 0.0.0.0");
  const boost::asio::ip::tcp::endpoint endpoint(address, port);
  acceptor->open(endpoint.protocol(), failed);
  if (!failed) acceptor->set_option(boost::asio::socket_base::reuse_address(true), failed);
  if (!failed) acceptor->bind(endpoint, failed);
  if (!failed) acceptor->listen(boost::asio::socket_base::max_listen_connections, failed);
  if (failed) {
    return IoError("cannot listen on " + host + ":" + std::to_string(port) + ": " +
                   failed.message());
  }
  return "http://" + (address.is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(acceptor->local_endpoint().port());
}

}  // namespace kcc
