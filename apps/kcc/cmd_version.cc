#include "apps/kcc/commands.h"

namespace kcc::cli {

std::string_view Version() { return KCC_VERSION; }

int RunVersion(Console& console) {
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kcc", KCC_VERSION).Field("apiVersion", "kcc/v1").EndObject();
    console.out << json.Take();
  } else {
    console.out << "kcc " KCC_VERSION "\n";
  }
  return kExitOk;
}

}  // namespace kcc::cli
