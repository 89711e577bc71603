// `http: URL`: a service that is sent each answer by POST and gives the grade.
#include <utility>

#include "kcc/kernel/http_pool.h"
#include "kcc/rescore/grade.h"

namespace kcc {
namespace {

constexpr size_t kGradeBytesMax = 1 << 20;

class HttpGrader final : public Grader {
 public:
  HttpGrader(std::string field, std::string path, std::unique_ptr<HttpPool> pool)
      : field_(std::move(field)), path_(std::move(path)), pool_(std::move(pool)) {}

  std::optional<RequestValue> Grade(const GradeAsk& ask, std::string* fault) override {
    const auto reply = pool_->Ask({path_, GradeLine(ask)});
    if (!reply.has_value()) {
      *fault = reply.error().message();
      return std::nullopt;
    }
    if (reply->status != 200) {
      *fault = "the grader answers with status " + std::to_string(reply->status);
      return std::nullopt;
    }
    auto value = ReadGrade(reply->body, field_);
    if (value.has_value()) return std::move(*value);
    *fault = value.error().message();
    return std::nullopt;
  }

 private:
  const std::string field_;
  const std::string path_;
  std::unique_ptr<HttpPool> pool_;
};

}  // namespace

Result<std::unique_ptr<Grader>> MakeHttpGrader(const GradeHook& hook, const GraderLimits& limits) {
  const size_t host = hook.url.find("://");
  if ((!hook.url.starts_with("http://") && !hook.url.starts_with("https://")) ||
      host + 3 >= hook.url.size()) {
    return InvalidError("'" + hook.url + "' is no address of a grader, http://HOST:PORT/PATH");
  }
  const size_t path = std::min(hook.url.find('/', host + 3), hook.url.size());
  HttpOptions options;
  options.base_url = hook.url.substr(0, path);
  options.in_flight_max = 1;
  options.retries_max = 0;
  options.connect_timeout_s = limits.timeout_s;
  options.timeout_s = limits.timeout_s;
  options.batch_timeout_s = limits.timeout_s;
  options.body_bytes_max = kGradeBytesMax;
  options.stop_fd = limits.stop_fd;
  KCC_TRY(std::unique_ptr<HttpPool> pool, HttpPool::Open(std::move(options)));
  std::string rest = path < hook.url.size() ? hook.url.substr(path) : "/";
  return std::unique_ptr<Grader>(
      std::make_unique<HttpGrader>(hook.field, std::move(rest), std::move(pool)));
}

}  // namespace kcc
