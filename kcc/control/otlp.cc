#include "kcc/control/otlp.h"

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/gateway/route_word.h"

namespace kcc {
namespace {

// OpenTelemetry's names for generative models are not settled; they stand here and nowhere else.
constexpr const char* kSystemKey = "gen_ai.provider.name";
constexpr const char* kOperationKey = "gen_ai.operation.name";
constexpr const char* kModelKey = "gen_ai.request.model";
constexpr const char* kFinishKey = "gen_ai.response.finish_reasons";
constexpr const char* kInputKey = "gen_ai.usage.input_tokens";
constexpr const char* kOutputKey = "gen_ai.usage.output_tokens";
constexpr const char* kStatusKey = "http.response.status_code";

constexpr int64_t kNanosPerMs = 1'000'000;
constexpr double kTimeoutS = 3;

std::string Line(JsonWriter* json) {
  std::string line = json->Take();
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

void WriteTextAttribute(const char* key, std::string_view value, JsonWriter* json) {
  json->BeginObject().Field("key", key).Key("value").BeginObject();
  json->Field("stringValue", value).EndObject().EndObject();
}
// A list of one text.
void WriteListAttribute(const char* key, std::string_view value, JsonWriter* json) {
  json->BeginObject().Field("key", key).Key("value").BeginObject().Key("arrayValue").BeginObject();
  json->Key("values").BeginArray().BeginObject().Field("stringValue", value).EndObject();
  json->EndArray().EndObject().EndObject().EndObject();
}
// 64-bit integers are texts in OTLP's JSON.
void WriteIntegerAttribute(const char* key, int64_t value, JsonWriter* json) {
  json->BeginObject().Field("key", key).Key("value").BeginObject();
  json->Field("intValue", std::to_string(value)).EndObject().EndObject();
}

void WriteResource(const OtlpOptions& options, JsonWriter* json) {
  json->Key("resource").BeginObject().Key("attributes").BeginArray();
  WriteTextAttribute("service.name", "kcc-gateway", json);
  WriteTextAttribute("service.instance.id", options.gateway, json);
  WriteTextAttribute("service.version", options.kcc_version, json);
  json->EndArray().EndObject();
}
void WriteScope(const OtlpOptions& options, JsonWriter* json) {
  json->Key("scope").BeginObject().Field("name", "kcc").Field("version", options.kcc_version);
  json->EndObject();
}

struct MetricSample {
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

// One line of Prometheus' text form: name{key="value",...} number.
bool ReadSample(std::string_view line, std::string* name, MetricSample* sample) {
  const size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos) return false;
  *name = line.substr(0, end);
  line.remove_prefix(end);
  if (line[0] == '{') {
    line.remove_prefix(1);
    while (!line.empty() && line[0] != '}') {
      const size_t equals = line.find("=\"");
      if (equals == std::string_view::npos) return false;
      std::string key(line.substr(0, equals)), value;
      line.remove_prefix(equals + 2);
      while (!line.empty() && line[0] != '"') {
        if (line[0] == '\\' && line.size() > 1) {
          line.remove_prefix(1);
          value += line[0] == 'n' ? '\n' : line[0];
        } else {
          value += line[0];
        }
        line.remove_prefix(1);
      }
      if (line.empty()) return false;
      line.remove_prefix(1);
      if (!line.empty() && line[0] == ',') line.remove_prefix(1);
      sample->labels.emplace_back(std::move(key), std::move(value));
    }
    if (line.empty()) return false;
    line.remove_prefix(1);
  }
  if (line.empty() || line[0] != ' ') return false;
  const auto value = ParseNumber(line.substr(1));
  if (!value) return false;  // what is not finite has no form in JSON
  sample->value = *value;
  return true;
}

struct MetricFamily {
  bool counter = false;
  std::vector<MetricSample> samples;
};

// Histograms go as the counters that they are made of.
std::map<std::string, MetricFamily> ReadFamilies(const std::string& text) {
  std::map<std::string, MetricFamily> families;
  std::map<std::string, bool> counters;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    constexpr std::string_view kType = "# TYPE ";
    if (line.starts_with(kType)) {
      const size_t blank = line.find(' ', kType.size());
      if (blank == std::string_view::npos) continue;
      const std::string name(line.substr(kType.size(), blank - kType.size()));
      counters[name] = line.substr(blank + 1) != "gauge";
      continue;
    }
    std::string name;
    MetricSample sample;
    if (line.empty() || line[0] == '#' || !ReadSample(line, &name, &sample)) continue;
    std::string base = name;
    for (const std::string_view part : {"_bucket", "_sum", "_count"}) {
      if (base.ends_with(part)) base.resize(base.size() - part.size());
    }
    const auto known = counters.find(counters.contains(name) ? name : base);
    MetricFamily& family = families[name];
    family.counter = known != counters.end() && known->second;
    family.samples.push_back(std::move(sample));
  }
  return families;
}

void WriteFamily(const std::string& name, const MetricFamily& family, int64_t started_ms,
                 int64_t now_ms, JsonWriter* json) {
  json->BeginObject().Field("name", name).Key(family.counter ? "sum" : "gauge").BeginObject();
  if (family.counter) {
    constexpr int kCumulative = 2;
    json->Field("aggregationTemporality", kCumulative).Field("isMonotonic", true);
  }
  json->Key("dataPoints").BeginArray();
  for (const MetricSample& sample : family.samples) {
    json->BeginObject().Key("attributes").BeginArray();
    for (const auto& [key, value] : sample.labels) WriteTextAttribute(key.c_str(), value, json);
    json->EndArray().Field("startTimeUnixNano", std::to_string(started_ms * kNanosPerMs));
    json->Field("timeUnixNano", std::to_string(now_ms * kNanosPerMs));
    json->Field("asDouble", sample.value).EndObject();
  }
  json->EndArray().EndObject().EndObject();
}

std::string Hex(uint64_t bits) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

std::string TracesBody(const OtlpOptions& options, const std::deque<std::string>& spans) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Key("resourceSpans").BeginArray().BeginObject();
  WriteResource(options, &json);
  json.Key("scopeSpans").BeginArray().BeginObject();
  WriteScope(options, &json);
  json.Key("spans").BeginArray();
  for (const std::string& span : spans) json.Raw(span);
  json.EndArray().EndObject().EndArray().EndObject().EndArray().EndObject();
  return json.Take();
}

}  // namespace

std::string OtlpMetrics(const OtlpOptions& options, const std::string& prometheus,
                        int64_t started_ms, int64_t now_ms) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Key("resourceMetrics").BeginArray().BeginObject();
  WriteResource(options, &json);
  json.Key("scopeMetrics").BeginArray().BeginObject();
  WriteScope(options, &json);
  json.Key("metrics").BeginArray();
  for (const auto& [name, family] : ReadFamilies(prometheus)) {
    WriteFamily(name, family, started_ms, now_ms, &json);
  }
  json.EndArray().EndObject().EndArray().EndObject().EndArray().EndObject();
  return json.Take();
}

std::string OtlpSpan(const ServedRecord& record) {
  constexpr uint64_t kTraceSalt = 1, kTraceSalt2 = 2, kSpanSalt = 3;
  constexpr int kClient = 3, kError = 2, kServerErrors = 500;
  const bool chat = record.path.find("/chat/") != std::string::npos;
  const auto started = record.started_at_ms * kNanosPerMs;
  const auto took = static_cast<int64_t>(record.latency_ms * static_cast<double>(kNanosPerMs));
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field(
      "traceId", Hex(HashBytes(kTraceSalt, record.id)) + Hex(HashBytes(kTraceSalt2, record.id)));
  json.Field("spanId", Hex(HashBytes(kSpanSalt, record.id)));
  json.Field("name", chat ? "chat" : "text_completion").Field("kind", kClient);
  json.Field("startTimeUnixNano", std::to_string(started));
  json.Field("endTimeUnixNano", std::to_string(started + took));
  json.Key("attributes").BeginArray();
  WriteTextAttribute(kOperationKey, chat ? "chat" : "text_completion", &json);
  WriteTextAttribute(kSystemKey, "kcc", &json);
  if (record.pool) {
    WriteTextAttribute(kModelKey, record.pool->model, &json);
    WriteTextAttribute("kcc.kernel", record.pool->kernels[record.kernel].name, &json);
    WriteTextAttribute("kcc.stage", record.pool->stage, &json);
  }
  WriteTextAttribute("kcc.request_id", record.id, &json);
  if (!record.finish_reason.empty()) WriteListAttribute(kFinishKey, record.finish_reason, &json);
  if (!record.prompt_ids.empty()) {
    WriteIntegerAttribute(kInputKey, static_cast<int64_t>(record.prompt_ids.size()), &json);
  }
  WriteIntegerAttribute(kOutputKey, static_cast<int64_t>(record.tokens.size()), &json);
  WriteIntegerAttribute(kStatusKey, record.status, &json);
  json.EndArray();
  if (record.status == 0 || record.status >= kServerErrors || record.cut) {
    json.Key("status").BeginObject().Field("code", kError).EndObject();
  }
  json.EndObject();
  return Line(&json);
}

OtlpExporter::OtlpExporter(OtlpOptions options, std::unique_ptr<HttpPool> pool, const Clock* clock)
    : options_(std::move(options)),
      pool_(std::move(pool)),
      clock_(clock),
      started_ms_(clock->NowMs()) {}

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::Start(OtlpOptions options, const Clock* clock) {
  HttpOptions http;
  http.base_url = options.url;
  while (http.base_url.ends_with('/')) http.base_url.pop_back();
  http.retries_max = 0;
  http.connect_timeout_s = kTimeoutS;
  http.timeout_s = kTimeoutS;
  http.batch_timeout_s = kTimeoutS;
  KCC_TRY(auto pool, HttpPool::Open(http));
  std::unique_ptr<OtlpExporter> exporter(
      new OtlpExporter(std::move(options), std::move(pool), clock));
  exporter->thread_ = std::thread([self = exporter.get()] { self->Run(); });
  return exporter;
}

OtlpExporter::~OtlpExporter() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void OtlpExporter::Take(const ServedRecord& record) {
  if (record.kind != RecordKind::kAudit) return;
  std::string span = OtlpSpan(record);
  const std::lock_guard lock(mutex_);
  if (spans_.size() >= options_.spans_max) {
    ++counts_.dropped;
    return;
  }
  spans_.push_back(std::move(span));
}

OtlpCounts OtlpExporter::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void OtlpExporter::Run() {
  for (bool end = false; !end;) {
    std::deque<std::string> spans;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::milliseconds(options_.every_ms), [&] { return end_; });
      end = end_;
      spans.swap(spans_);
    }
    Send("/v1/metrics", OtlpMetrics(options_, options_.metrics(), started_ms_, clock_->NowMs()), 0);
    if (!spans.empty()) Send("/v1/traces", TracesBody(options_, spans), spans.size());
  }
}

void OtlpExporter::Send(const std::string& path, const std::string& body, uint64_t spans) {
  const auto reply = pool_->Ask({path, body});
  const bool taken = reply.has_value() && reply->status >= 200 && reply->status < 300;
  const std::lock_guard lock(mutex_);
  if (taken) {
    counts_.spans += spans;
  } else {
    ++counts_.failures;
    counts_.dropped += spans;
  }
}

}  // namespace kcc
