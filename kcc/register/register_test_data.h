// For tests: events of every kind, and random logs of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/register/register.h"

namespace kcc {

// The register's state and log, read back.
inline RegisterState StoredState(Register& source) {
  RegisterState state;
  const Result<> read = source.store().ReadEntries({}, [&](const StoredEntry& entry) -> Result<> {
    EXPECT_TRUE(state.entries.emplace(entry.key, entry.state).second);
    return {};
  });
  EXPECT_TRUE(read.has_value()) << read.error().Format();
  return state;
}

inline RegisterState FoldOf(const std::vector<Event>& events) {
  RegisterState state;
  EventReader reader;
  for (const Event& event : events) {
    const auto facts = reader.Read(event);
    EXPECT_TRUE(facts.has_value()) << facts.error().Format();
    const Result<> applied = state.Apply(event, *facts);
    EXPECT_TRUE(applied.has_value()) << applied.error().Format();
  }
  return state;
}

inline std::vector<Event> LogOf(Register& source) {
  auto events = source.ReadEvents({});
  EXPECT_TRUE(events.has_value()) << events.error().Format();
  return events.has_value() ? std::move(*events) : std::vector<Event>();
}

// A digest that no bytes here have.
inline std::string MadeUpDigest(uint64_t number) {
  return BlobDigest("made up " + std::to_string(number));
}

inline NewEvent EventOf(std::string kind, std::string body, int64_t time_ms = 1'700'000'000'000) {
  return {.time_ms = time_ms, .actor = "tester", .kind = std::move(kind), .body = std::move(body)};
}

// {"a":"b",…} of texts.
inline std::string BodyOf(const std::vector<std::pair<std::string, std::string>>& members,
                          const std::string& more = "") {
  std::string body = "{";
  for (const auto& [key, value] : members) {
    body += (body.size() > 1 ? "," : "") + JsonQuote(key) + ":" + JsonQuote(value);
  }
  return body + (more.empty() ? "" : "," + more) + "}";
}

// A model, two kernels, a contract and a triple of them, the first events of a log.
struct Story {
  std::string contract_text = "{\"name\":\"c\"}";
  std::string contract = BlobDigest(contract_text);
  std::string model = MadeUpDigest(1);
  std::string triple = MadeUpDigest(2);

  Batch Begin() const {
    Batch batch;
    batch.blobs = {contract_text};
    batch.events = {
        EventOf("model.added", BodyOf({{"model", model}, {"name", "m"}})),
        EventOf("kernel.added", BodyOf({{"kernel", "train-1"}}, R"("build":{})")),
        EventOf("kernel.added", BodyOf({{"kernel", "infer-1"}}, R"("build":{"engine":"x"})")),
        EventOf("contract.added", BodyOf({{"contract", contract}, {"name", "c"}})),
        EventOf("triple.added", BodyOf({{"triple", triple},
                                        {"model", model},
                                        {"train", "train-1"},
                                        {"infer", "infer-1"},
                                        {"contract", contract}}))};
    return batch;
  }

  // An evaluation with a report of its own.
  Batch Evaluation(const std::string& verdict, const std::string& report) const {
    return {{EventOf("evaluation.recorded", BodyOf({{"triple", triple},
                                                    {"stage", "offline"},
                                                    {"verdict", verdict},
                                                    {"report", BlobDigest(report)}},
                                                   R"("health":0.5,"clauses":[],"evidence":[])"))},
            {report}};
  }
};

// Random events, valid after one another; a small share of single ones that must be refused.
class RandomLog {
 public:
  explicit RandomLog(uint64_t seed) : random_(seed) {}

  struct Draw {
    Batch batch;
    bool valid = true;
  };
  Draw Next(size_t events_max) {
    if (!triples_.empty() && Below(10) == 0) return {Refused(), false};
    Draw draw;
    const size_t count = 1 + Below(events_max);
    for (size_t i = 0; i < count; ++i) Add(&draw.batch);
    return draw;
  }

 private:
  size_t Below(size_t limit) { return static_cast<size_t>(random_() % limit); }
  const std::string& Any(const std::vector<std::string>& of) { return of[Below(of.size())]; }
  std::string Fresh(const char* what) { return std::string(what) + std::to_string(++count_); }
  std::string NewBlob(Batch* batch) {
    std::string bytes = Fresh("blob ");
    bytes.append(Below(200), static_cast<char>(Below(256)));
    batch->blobs.push_back(bytes);
    return BlobDigest(bytes);
  }
  void Put(Batch* batch, std::string kind, std::string body) {
    time_ms_ += static_cast<int64_t>(Below(1000));
    batch->events.push_back(
        {time_ms_, Below(2) == 0 ? "ann" : "ci é", std::move(kind), std::move(body)});
  }

  void Add(Batch* batch);
  void AddOfTriple(Batch* batch);
  void AddRest(Batch* batch);
  Batch Refused();

  std::mt19937_64 random_;
  uint64_t count_ = 0;
  int64_t time_ms_ = 1'700'000'000'000;
  std::vector<std::string> models_, kernels_, contracts_, triples_, promotions_, incidents_, blobs_;
};

inline void RandomLog::Add(Batch* batch) {
  const size_t choice = Below(triples_.empty() ? 4 : 12);
  if (choice == 0) {
    models_.push_back(MadeUpDigest(++count_));
    Put(batch, "model.added", BodyOf({{"model", models_.back()}}));
  } else if (choice == 1) {
    kernels_.push_back(Fresh("kernel "));
    Put(batch, "kernel.added", BodyOf({{"kernel", kernels_.back()}}, R"("build":{"engine":"e"})"));
  } else if (choice == 2) {
    contracts_.push_back(NewBlob(batch));
    Put(batch, "contract.added", BodyOf({{"contract", contracts_.back()}, {"name", "c"}}));
  } else if (choice == 3) {
    if (models_.empty() || kernels_.empty() || contracts_.empty()) return Add(batch);
    triples_.push_back(MadeUpDigest(++count_));
    Put(batch, "triple.added",
        BodyOf({{"triple", triples_.back()},
                {"model", Any(models_)},
                {"train", Any(kernels_)},
                {"infer", Any(kernels_)},
                {"contract", Any(contracts_)}}));
  } else {
    AddOfTriple(batch);
  }
}

inline void RandomLog::AddOfTriple(Batch* batch) {
  const size_t choice = Below(6);
  const std::string& triple = Any(triples_);
  if (choice < 2) {
    blobs_.push_back(NewBlob(batch));
    Put(batch, "evaluation.recorded",
        BodyOf({{"triple", triple},
                {"stage", "offline"},
                {"verdict", "satisfied"},
                {"report", blobs_.back()}},
               R"("health":0.25,"clauses":[{"id":"N-1","verdict":"satisfied"}],"evidence":[])"));
  } else if (choice < 4) {
    // The same promotion again and again: the last state counts.
    const bool is_new = promotions_.empty() || Below(4) == 0;
    if (is_new) promotions_.push_back(Fresh("p"));
    Put(batch, "promotion.changed",
        BodyOf({{"promotion", is_new ? promotions_.back() : Any(promotions_)},
                {"triple", triple},
                {"from", "offline"},
                {"to", "shadow"},
                {"cause", "satisfied"}},
               R"("state":{"step":)" + std::to_string(Below(9)) + "}"));
  } else {
    AddRest(batch);
  }
}

inline void RandomLog::AddRest(Batch* batch) {
  const size_t choice = Below(6);
  if (choice == 0 && !promotions_.empty()) {
    Put(batch, "approval.given", BodyOf({{"promotion", Any(promotions_)}}));
  } else if (choice == 1) {
    incidents_.push_back(Fresh("i"));
    Put(batch, "incident.opened",
        BodyOf({{"incident", incidents_.back()}, {"what", "w"}, {"triple", Any(triples_)}}));
  } else if (choice == 2 && !incidents_.empty()) {
    Put(batch, "incident.closed", BodyOf({{"incident", Any(incidents_)}, {"what", "fixed"}}));
  } else if (choice == 3) {
    Put(batch, "certificate.added",
        BodyOf({{"certificate", NewBlob(batch)}, {"triple", Any(triples_)}}));
  } else if (choice == 4) {
    Put(batch, "request.stored",
        BodyOf({{"request", Fresh("r")}, {"store", "full"}, {"blob", NewBlob(batch)}}));
  } else if (!blobs_.empty()) {
    const size_t at = Below(blobs_.size());
    Put(batch, "blob.removed", BodyOf({{"blob", blobs_[at]}, {"why", "retention"}}));
    blobs_.erase(blobs_.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

// One event that the register must refuse.
inline Batch RandomLog::Refused() {
  Batch batch;
  switch (Below(5)) {
    case 0:  // again
      Put(&batch, "model.added", BodyOf({{"model", Any(models_)}}));
      break;
    case 1:  // of nothing
      Put(&batch, "certificate.added",
          BodyOf({{"certificate", NewBlob(&batch)}, {"triple", MadeUpDigest(++count_)}}));
      break;
    case 2:  // a blob that nobody stored
      Put(&batch, "contract.added", BodyOf({{"contract", MadeUpDigest(++count_)}, {"name", "c"}}));
      break;
    case 3:
      Put(&batch, "incident.closed", BodyOf({{"incident", Fresh("none")}, {"what", "w"}}));
      break;
    default:
      Put(&batch, "triple.added", BodyOf({{"triple", Any(triples_)}}));
  }
  return batch;
}

}  // namespace kcc
