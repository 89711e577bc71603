#include "apps/kcc/published.h"

#include <array>
#include <filesystem>

#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"

namespace kcc::cli {

Result<> Publish(const std::string& directory, const Published& made, Console& console) {
  const std::string name(made.name);
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) return IoError("cannot make the directory: " + failed.message(), Place{directory});
  const std::string base = directory + "/" + name;
  KCC_TRY_VOID(WriteFilesTogether(directory, std::array{NamedBytes{name + ".html", made.page},
                                                        NamedBytes{name + ".md", made.table},
                                                        NamedBytes{name + ".json", made.figures}}));
  if (console.json) {
    console.out << made.figures;
  } else {
    console.out << made.text << "\nopen " << Shown(base) << ".html\n";
  }
  return {};
}

}  // namespace kcc::cli
