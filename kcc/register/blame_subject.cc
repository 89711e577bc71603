#include "kcc/register/blame_subject.h"

#include <algorithm>
#include <vector>

#include "kcc/promotion/promotion_json.h"
#include "kcc/register/event_body.h"

namespace kcc {
namespace {

Deployment DeploymentOf(const Entry& triple) {
  const auto text = [&](std::string_view key) { return BodyText(triple.event.body, key); };
  return {text("model"), text("train"), text("infer"), text("contract"), "", ""};
}

// The newest incident about the promotion or its triple.
Result<std::optional<Entry>> IncidentOf(Register& source, const Entry& promotion) {
  KCC_TRY(std::vector<Entry> incidents, source.List({.table = EntryTable::kIncidents}));
  std::sort(incidents.begin(), incidents.end(),
            [](const Entry& a, const Entry& b) { return a.state.added > b.state.added; });
  const std::string triple = BodyText(promotion.event.body, "triple");
  for (Entry& incident : incidents) {
    KCC_TRY(const auto opened,
            source.ReadEvents({.first = incident.state.added, .last = incident.state.added}));
    if (opened.empty()) continue;
    const std::string& body = opened[0].body;
    const std::string named = BodyText(body, "promotion");
    const bool about = named.empty() ? BodyText(body, "triple") == triple &&
                                           incident.state.added > promotion.state.added
                                     : named == promotion.key.id;
    if (!about) continue;
    incident.event = opened[0];  // what was said first: closing it does not repeat it
    return std::optional(std::move(incident));
  }
  return std::optional<Entry>();
}

// The newest promotion of the triple.
Result<std::optional<Entry>> PromotionOf(Register& source, const std::string& triple) {
  KCC_TRY(std::vector<Entry> entries,
          source.List({.table = EntryTable::kPromotions, .subject = triple}));
  std::optional<Entry> newest;
  for (Entry& entry : entries) {
    if (!newest || entry.state.added > newest->state.added) newest = std::move(entry);
  }
  return newest;
}

Result<> SetTriple(Register& source, const std::string& id, BlameSubject* subject) {
  KCC_TRY(const std::optional<Entry> triple, source.Find({EntryTable::kTriples, id}));
  if (!triple) return BrokenEvidenceError("the register has no triple " + id);
  subject->after = DeploymentOf(*triple);
  return {};
}

Result<> SetPromotion(Entry entry, BlameSubject* subject) {
  KCC_TRY(PromotionState state, ReadPromotionState(BodyJson(entry.event.body, "state")));
  subject->after = std::move(state.candidate);
  subject->before = std::move(state.incumbent);
  subject->promotion = std::move(entry);
  return {};
}

Result<> SetIncident(Register& source, Entry incident, BlameSubject* subject) {
  subject->incident_opened = incident.state.added;
  KCC_TRY(const auto opened,
          source.ReadEvents({.first = incident.state.added, .last = incident.state.added}));
  if (!opened.empty()) incident.event = opened[0];
  const std::string& body = incident.event.body;
  subject->named_evaluation = BodyText(body, "evaluation");
  const std::string triple = BodyText(body, "triple");
  const std::string promotion = BodyText(body, "promotion");
  const std::string id = incident.key.id;
  subject->incident = std::move(incident);
  if (!promotion.empty()) {
    KCC_TRY(std::optional<Entry> named, source.Find({EntryTable::kPromotions, promotion}));
    if (!named) return BrokenEvidenceError("the register has no promotion " + promotion);
    return SetPromotion(std::move(*named), subject);
  }
  if (triple.empty()) {
    return InvalidError("incident " + id +
                        " names neither a promotion nor a triple, so there is nothing to compare; "
                        "add one with --promotion or --triple");
  }
  KCC_TRY(std::optional<Entry> newest, PromotionOf(source, triple));
  if (newest) return SetPromotion(std::move(*newest), subject);
  return SetTriple(source, triple, subject);
}

// The part behind "incident:" or "promotion:"; none where the name has neither.
std::optional<std::string> Behind(const std::string& name, std::string_view word) {
  if (name.rfind(word, 0) != 0) return {};
  return name.substr(word.size());
}

}  // namespace

Result<BlameSubject> FindBlameSubject(Register& source, const std::string& name) {
  const auto only_incident = Behind(name, "incident:");
  const auto only_promotion = Behind(name, "promotion:");
  std::optional<Entry> incident;
  std::optional<Entry> promotion;
  if (!only_promotion) {
    KCC_TRY(incident, source.Find({EntryTable::kIncidents, only_incident.value_or(name)}));
  }
  if (!only_incident) {
    KCC_TRY(promotion, source.Find({EntryTable::kPromotions, only_promotion.value_or(name)}));
  }
  if (incident && promotion) {
    return InvalidError("there is an incident '" + name + "' and a promotion '" + name +
                        "'; write incident:" + name + " or promotion:" + name);
  }
  if (!incident && !promotion) {
    return InvalidError("there is neither an incident nor a promotion '" + name +
                            "'; `kcc register list incidents` and `kcc promote status` list them",
                        Place{source.name()});
  }
  BlameSubject subject;
  if (incident) {
    KCC_TRY_VOID(SetIncident(source, std::move(*incident), &subject));
    return subject;
  }
  KCC_TRY(std::optional<Entry> about, IncidentOf(source, *promotion));
  if (about) {
    subject.incident_opened = about->state.added;
    subject.named_evaluation = BodyText(about->event.body, "evaluation");
    subject.incident = std::move(about);
  }
  KCC_TRY_VOID(SetPromotion(std::move(*promotion), &subject));
  return subject;
}

}  // namespace kcc
