/* The online monitor as a C program uses it: observations from arrays and as JSON, alarms, saving
 * and restoring, and what is refused. */
#include <kcc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "first_structs.h"

#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, \
              kcc_error());                                                            \
      exit(1);                                                                         \
    }                                                                                  \
  } while (0)

static const char kContract[] =
    "apiVersion: kcc/v1\n"
    "kind: KernelContract\n"
    "metadata: {name: watched, version: 1.0.0}\n"
    "spec:\n"
    "  numerical:\n"
    "    - {id: N-1, metric: max_kl, atMost: 1, exceedance: 1%, level: L2}\n"
    "  escalation: {L2: guard}\n";

static const char kPolicy[] =
    "apiVersion: kcc/v1\n"
    "kind: MonitorPolicy\n"
    "metadata: {name: pool, version: 1.0.0}\n"
    "spec:\n"
    "  falseAlarms: 1 per 10^4 requests\n"
    "  panic: serve-safest\n"
    "  kernels:\n"
    "    - {name: fast, role: infer}\n"
    "    - {name: reference, role: fallback}\n";

static kcc_contract* Contract(void) {
  kcc_contract* contract = NULL;
  CHECK(kcc_contract_parse(kContract, strlen(kContract), "watched.yaml", &contract) == KCC_OK);
  return contract;
}

static kcc_monitor* Monitor(const kcc_contract* contract) {
  kcc_monitor* monitor = NULL;
  CHECK(kcc_monitor_new(contract, kPolicy, strlen(kPolicy), "pool.yaml", NULL, &monitor) == KCC_OK);
  return monitor;
}

/* Request `number` of two tokens, the second of which has this KL. */
static kcc_status Observe(kcc_monitor* monitor, int number, double kl, kcc_text* out) {
  char record[64];
  snprintf(record, sizeof record, "{\"id\": \"r%d\"}", number);
  const double values[] = {0.25, kl};
  const kcc_column column = {"kl", values, NULL};
  kcc_observation observation;
  memset(&observation, 0, sizeof observation);
  observation.struct_size = sizeof observation;
  observation.time_ms = number;
  observation.kernel = "fast";
  observation.audited = 1;
  observation.infer_request = record;
  observation.train_request = record;
  observation.rows = 2;
  observation.columns = &column;
  observation.column_count = 1;
  return kcc_monitor_observe_tokens(monitor, &observation, out);
}

static int Has(kcc_text* text, const char* what) {
  const int found = strstr(text->data, what) != NULL;
  kcc_text_free(text);
  return found;
}

static void AlarmsOnAShiftAlone(const kcc_contract* contract) {
  kcc_monitor* monitor = Monitor(contract);
  kcc_text out = {NULL, 0};
  for (int i = 0; i < 500; ++i) {
    CHECK(Observe(monitor, i, 0.5, &out) == KCC_OK);
    CHECK(strstr(out.data, "\"handling\":\"counted\"") != NULL);
    CHECK(strstr(out.data, "\"changes\":[]") != NULL);
    CHECK(Has(&out, "\"serves\":\"fast\""));
  }
  int at = 500;
  for (int alarmed = 0; !alarmed && at < 600; ++at) {
    CHECK(Observe(monitor, at, 2.0, &out) == KCC_OK);
    alarmed = strstr(out.data, "\"kind\":\"alarm\"") != NULL;
    if (alarmed) CHECK(strstr(out.data, "\"clause\":\"N-1\"") != NULL);
    CHECK(Has(&out, alarmed ? "\"serves\":\"reference\"" : "\"serves\":\"fast\""));
  }
  CHECK(at < 600);
  CHECK(kcc_monitor_status(monitor, &out) == KCC_OK);
  CHECK(strstr(out.data, "\"serves\": \"reference\"") != NULL);
  CHECK(Has(&out, "\"state\": \"guarded\""));
  kcc_monitor_free(monitor);
}

static void GoesOnWhereItWasSaved(const kcc_contract* contract) {
  kcc_monitor* whole = Monitor(contract);
  kcc_text out = {NULL, 0}, saved = {NULL, 0}, again = {NULL, 0}, other = {NULL, 0};
  for (int i = 0; i < 20; ++i) {
    CHECK(Observe(whole, i, 0.5 * (i % 3), &out) == KCC_OK);
    kcc_text_free(&out);
  }
  CHECK(kcc_monitor_save(whole, &saved) == KCC_OK);
  kcc_monitor* restored = NULL;
  CHECK(kcc_monitor_restore(contract, kPolicy, strlen(kPolicy), NULL, NULL, saved.data, saved.size,
                            &restored) == KCC_OK);
  for (int i = 20; i < 60; ++i) {
    CHECK(Observe(whole, i, i % 4, &out) == KCC_OK);
    CHECK(Observe(restored, i, i % 4, &other) == KCC_OK);
    CHECK(out.size == other.size && memcmp(out.data, other.data, out.size) == 0);
    kcc_text_free(&out);
    kcc_text_free(&other);
  }
  CHECK(kcc_monitor_save(whole, &out) == KCC_OK);
  CHECK(kcc_monitor_save(restored, &again) == KCC_OK);
  CHECK(out.size == again.size && memcmp(out.data, again.data, out.size) == 0);
  kcc_text_free(&out);
  kcc_text_free(&again);
  kcc_monitor_free(restored);
  restored = NULL;
  CHECK(kcc_monitor_restore(contract, kPolicy, strlen(kPolicy), NULL, "canary", saved.data,
                            saved.size, &restored) == KCC_INVALID);
  CHECK(kcc_monitor_restore(contract, kPolicy, strlen(kPolicy), NULL, NULL, saved.data,
                            saved.size - 1, &restored) != KCC_OK);
  CHECK(restored == NULL);
  kcc_text_free(&saved);
  kcc_monitor_free(whole);
}

static void JsonAndArraysAreOneObservation(const kcc_contract* contract) {
  static const char kLine[] =
      "{\"time_ms\": 1, \"request\": \"r1\", \"kernel\": \"fast\", \"audited\": true, "
      "\"train\": {}, \"tokens\": {\"position\": [0, 1], \"kl\": [0.25, 2]}}";
  kcc_monitor *by_json = Monitor(contract), *by_arrays = Monitor(contract);
  kcc_text out = {NULL, 0}, a = {NULL, 0}, b = {NULL, 0};
  CHECK(kcc_monitor_observe(by_json, kLine, strlen(kLine), &out) == KCC_OK);
  CHECK(Has(&out, "counted"));
  CHECK(Observe(by_arrays, 1, 2, &out) == KCC_OK);
  kcc_text_free(&out);
  CHECK(kcc_monitor_save(by_json, &a) == KCC_OK && kcc_monitor_save(by_arrays, &b) == KCC_OK);
  CHECK(a.size == b.size && memcmp(a.data, b.data, a.size) == 0);
  kcc_text_free(&a);
  kcc_text_free(&b);
  CHECK(kcc_monitor_observe(by_json, "{\"audite\": 1}", 13, &out) == KCC_INVALID);
  CHECK(strstr(kcc_error(), "audite") != NULL);
  kcc_monitor_free(by_json);
  kcc_monitor_free(by_arrays);
}

static void RefusesWhatIsWrong(const kcc_contract* contract) {
  kcc_monitor* monitor = NULL;
  kcc_text out = {NULL, 0}, before = {NULL, 0}, after = {NULL, 0};
  CHECK(kcc_monitor_new(contract, "kind: x", 7, "p.yaml", NULL, &monitor) == KCC_INVALID);
  CHECK(strstr(kcc_error(), "p.yaml") != NULL);
  CHECK(kcc_monitor_new(contract, kPolicy, strlen(kPolicy), NULL, "now", &monitor) == KCC_INVALID);
  CHECK(strstr(kcc_error(), "offline, shadow, canary, full") != NULL && monitor == NULL);
  monitor = Monitor(contract);
  CHECK(kcc_monitor_save(monitor, &before) == KCC_OK);

  kcc_observation observation;
  memset(&observation, 0, sizeof observation);
  observation.struct_size = sizeof observation;
  observation.kernel = "slow";
  observation.infer_request = "{\"id\": \"a\"}";
  CHECK(kcc_monitor_observe_tokens(monitor, &observation, &out) == KCC_INVALID);
  CHECK(strstr(kcc_error(), "'slow'") != NULL);
  observation.kernel = "fast";
  const double value = 1, lower = 0;
  kcc_column column = {"kll", &value, NULL};
  observation.rows = 1;
  observation.columns = &column;
  observation.column_count = 1;
  CHECK(kcc_monitor_observe_tokens(monitor, &observation, &out) == KCC_INVALID);
  CHECK(strstr(kcc_error(), "'kll'") != NULL);
  column = (kcc_column){"kl", &value, &lower};
  CHECK(kcc_monitor_observe_tokens(monitor, &observation, &out) == KCC_INVALID);
  CHECK(strstr(kcc_error(), "empty interval") != NULL);
  column.upper = NULL;
  observation.rows = -1;
  CHECK(kcc_monitor_observe_tokens(monitor, &observation, &out) == KCC_INVALID);
  observation.rows = 1;
  observation.infer_request = "{}";
  CHECK(kcc_monitor_observe_tokens(monitor, &observation, &out) == KCC_INVALID);
  CHECK(strstr(kcc_error(), "infer_request") != NULL);
  observation.infer_request = "{\"id\": \"a\"}";
  observation.struct_size = sizeof(first_observation) - 1;
  CHECK(kcc_monitor_observe_tokens(monitor, &observation, &out) == KCC_INVALID);
  CHECK(sizeof(first_observation) <= sizeof(kcc_observation) && out.data == NULL);

  int audit = -1;
  CHECK(kcc_monitor_should_audit(monitor, "a", NULL, "slow", 0, &audit) == KCC_INVALID);
  CHECK(audit == -1);
  CHECK(kcc_monitor_should_audit(monitor, "a", NULL, "fast", 0, &audit) == KCC_OK);
  CHECK(audit == 0 || audit == 1);
  CHECK(kcc_monitor_save(monitor, &after) == KCC_OK);
  CHECK(before.size == after.size && memcmp(before.data, after.data, before.size) == 0);
  kcc_text_free(&before);
  kcc_text_free(&after);
  kcc_monitor_free(monitor);
}

/* From the arrays of a step to observations. */
static void TokensOfAMeasurement(const kcc_contract* contract) {
  static const float train[] = {3, 0, 0, 0, 3, 0, 0, 0, 3, 3, 0, 0};
  static const float infer[] = {3, 0, 0, 0, 0, 3, 0, 0, 3, 3, 0, 0};
  static const uint8_t mask[] = {1, 1, 0, 1};
  static const float advantages[] = {1, 2, 3, 4};
  const int64_t first[] = {0, 3}, counts[] = {3, 1};
  kcc_arrays arrays;
  memset(&arrays, 0, sizeof arrays);
  arrays.struct_size = sizeof arrays;
  arrays.train_logits = (kcc_array){train, KCC_F32, 0};
  arrays.infer_logits = (kcc_array){infer, KCC_F32, 0};
  arrays.rows = 4;
  arrays.vocab_size = 3;
  arrays.temperature = 1;
  arrays.requests_jsonl = "{\"id\": \"a\", \"output_tokens\": 3}\n{\"id\": \"b\"}\n";
  arrays.requests_jsonl_size = strlen(arrays.requests_jsonl);
  arrays.requests = 2;
  arrays.first_rows = first;
  arrays.row_counts = counts;
  arrays.mask = mask;
  arrays.advantages = advantages;
  kcc_measurement* measurement = NULL;
  kcc_summary* summary = NULL;
  kcc_tokens* tokens = NULL;
  CHECK(kcc_measure_begin(&arrays, contract, 2, &measurement) == KCC_OK);
  CHECK(kcc_measure_finish_tokens(measurement, &summary, &tokens) == KCC_OK);
  CHECK(kcc_summary_tokens(summary) == 3);
  kcc_observation observation;
  memset(&observation, 0, sizeof observation);
  observation.struct_size = sizeof observation;
  CHECK(kcc_tokens_observation(tokens, 0, &observation) == KCC_OK);
  CHECK(observation.rows == 2 && observation.masked == 1 && observation.audited == 1);
  CHECK(observation.positions[1] == 1 && observation.advantages[1] == 2);
  CHECK(strstr(observation.infer_request, "\"a\"") != NULL && observation.one_record == 1);
  const double* kl = NULL;
  for (int64_t i = 0; i < observation.column_count; ++i) {
    if (strcmp(observation.columns[i].name, "kl") == 0) kl = observation.columns[i].values;
  }
  CHECK(kl != NULL && kl[0] == 0);
  const double p = exp(3) / (exp(3) + 2);
  CHECK(fabs(kl[1] - 3 * (p - (1 - p) / 2)) < 1e-6);
  kcc_monitor* monitor = Monitor(contract);
  kcc_text out = {NULL, 0};
  observation.kernel = "fast";
  CHECK(kcc_monitor_observe_tokens(monitor, &observation, &out) == KCC_OK);
  CHECK(Has(&out, "counted"));
  CHECK(kcc_tokens_observation(tokens, 2, &observation) == KCC_INVALID);
  CHECK(kcc_measure_finish_tokens(measurement, &summary, &tokens) == KCC_INVALID);
  kcc_monitor_free(monitor);
  kcc_tokens_free(tokens);
  kcc_summary_free(summary);
  kcc_measurement_free(measurement);
}

enum { kThreads = 4, kReads = 60 };

/* What a thread reads, or what its own monitor made. */
struct work {
  const kcc_contract* contract;
  const kcc_monitor* monitor;
  kcc_text saved, status;
  int audits;
};

static void* ReadAll(void* argument) {
  struct work* work = argument;
  for (int i = 0; i < kReads; ++i) {
    char request[32];
    int audit = 0;
    snprintf(request, sizeof request, "q%d", i);
    CHECK(kcc_monitor_should_audit(work->monitor, request, NULL, "fast", i, &audit) == KCC_OK);
    work->audits += audit;
    CHECK(kcc_monitor_should_audit(work->monitor, request, NULL, "slow", i, &audit) == KCC_INVALID);
    kcc_text_free(&work->saved);
    kcc_text_free(&work->status);
    CHECK(kcc_monitor_save(work->monitor, &work->saved) == KCC_OK);
    CHECK(kcc_monitor_status(work->monitor, &work->status) == KCC_OK);
  }
  return NULL;
}

static void* FoldAll(void* argument) {
  struct work* work = argument;
  kcc_monitor* monitor = Monitor(work->contract);
  kcc_text out = {NULL, 0};
  for (int i = 0; i < kReads; ++i) {
    CHECK(Observe(monitor, i, i % 9 == 0 ? 2.0 : 0.5, &out) == KCC_OK);
    kcc_text_free(&out);
  }
  CHECK(kcc_monitor_save(monitor, &work->saved) == KCC_OK);
  CHECK(kcc_monitor_status(monitor, &work->status) == KCC_OK);
  kcc_monitor_free(monitor);
  return NULL;
}

/* All threads must end with the same bytes. */
static void InThreads(void* (*what)(void*), const kcc_contract* contract,
                      const kcc_monitor* monitor) {
  struct work works[kThreads];
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    works[i] = (struct work){contract, monitor, {NULL, 0}, {NULL, 0}, 0};
    CHECK(pthread_create(&threads[i], NULL, what, &works[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < kThreads; ++i) {
    CHECK(works[i].audits == works[0].audits && works[i].saved.size == works[0].saved.size);
    CHECK(memcmp(works[i].saved.data, works[0].saved.data, works[0].saved.size) == 0);
    CHECK(strcmp(works[i].status.data, works[0].status.data) == 0);
  }
  for (int i = 0; i < kThreads; ++i) {
    kcc_text_free(&works[i].saved);
    kcc_text_free(&works[i].status);
  }
}

/* One monitor is read by many threads at once, and many threads have monitors of their own under
 * one contract. */
static void ThreadsReadOneAndFoldTheirOwn(const kcc_contract* contract) {
  kcc_monitor* monitor = Monitor(contract);
  kcc_text out = {NULL, 0};
  for (int i = 0; i < 50; ++i) {
    CHECK(Observe(monitor, i, 0.5, &out) == KCC_OK);
    kcc_text_free(&out);
  }
  InThreads(ReadAll, contract, monitor);
  kcc_monitor_free(monitor);
  InThreads(FoldAll, contract, NULL);
}

int main(void) {
  kcc_contract* contract = Contract();
  AlarmsOnAShiftAlone(contract);
  GoesOnWhereItWasSaved(contract);
  JsonAndArraysAreOneObservation(contract);
  RefusesWhatIsWrong(contract);
  TokensOfAMeasurement(contract);
  ThreadsReadOneAndFoldTheirOwn(contract);
  kcc_contract_free(contract);
  puts("capi monitor: all passed");
  return 0;
}
