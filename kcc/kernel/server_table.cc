#include "kcc/kernel/server_table.h"

namespace kcc {

const ServerDialect* FindServer(std::string_view name) {
  for (const ServerDialect* server : kServers) {
    if (server->name == name) return server;
  }
  return nullptr;
}

std::vector<std::string_view> ServerNames() {
  std::vector<std::string_view> names;
  names.reserve(kServers.size());
  for (const ServerDialect* server : kServers) names.push_back(server->name);
  return names;
}

std::string ServerChoices() {
  std::string choices;
  for (const ServerDialect* server : kServers) {
    if (!choices.empty()) choices += '|';
    choices += server->name;
  }
  return choices;
}

}  // namespace kcc
