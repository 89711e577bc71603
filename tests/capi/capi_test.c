/* The C interface as a C program uses it: the README's example in C, then what goes wrong. */
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
    "metadata: {name: capi, version: 1.0.0}\n"
    "spec:\n"
    "  numerical:\n"
    "    - {id: N-1, metric: mean_abs_log_ratio, atMost: 0.02, level: L3}\n";

enum { kRows = 4, kColumns = 8 };
static float train[kRows][kColumns], rollout[kRows][kColumns];
static uint8_t mask[kRows][kColumns];

static void FillStep(float gap) {
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      rollout[row][column] = -1.0f - 0.1f * (float)column;
      train[row][column] = rollout[row][column] + gap;
      mask[row][column] = column < 6;
    }
  }
}

static kcc_rl_batch Batch(void) {
  kcc_rl_batch batch;
  memset(&batch, 0, sizeof batch);
  batch.struct_size = sizeof batch;
  batch.rows = kRows;
  batch.columns = kColumns;
  batch.train = (kcc_array){train, KCC_F32, 0};
  batch.rollout = (kcc_array){rollout, KCC_F32, 0};
  batch.mask = (kcc_array){mask, KCC_U8, 0};
  return batch;
}

static kcc_arrays Arrays(const char* requests, const int64_t* first, const int64_t* counts) {
  kcc_arrays arrays;
  memset(&arrays, 0, sizeof arrays);
  arrays.struct_size = sizeof arrays;
  arrays.train_logprobs = (kcc_array){train, KCC_F32, 0};
  arrays.infer_logprobs = (kcc_array){rollout, KCC_F32, 0};
  arrays.rows = kRows * kColumns;
  arrays.temperature = 1.0;
  arrays.requests_jsonl = requests;
  arrays.requests_jsonl_size = strlen(requests);
  arrays.requests = 2;
  arrays.first_rows = first;
  arrays.row_counts = counts;
  arrays.mask = &mask[0][0];
  return arrays;
}

static void MeasureAndJudge(void) {
  static const char kRequests[] = "{\"id\": \"a\"}\n{\"id\": \"b\"}\n";
  const int64_t first[] = {0, 2 * kColumns};
  const int64_t counts[] = {2 * kColumns, 2 * kColumns};
  kcc_contract* contract = NULL;
  CHECK(kcc_contract_parse(kContract, strlen(kContract), "capi.yaml", &contract) == KCC_OK);
  const float gaps[] = {0.01f, 0.5f};
  const char* verdicts[] = {"\"verdict\": \"satisfied\"", "\"verdict\": \"violated\""};
  for (int i = 0; i < 2; ++i) {
    FillStep(gaps[i]);
    const kcc_arrays arrays = Arrays(kRequests, first, counts);
    kcc_summary* summary = NULL;
    CHECK(kcc_measure_arrays(&arrays, contract, 1, &summary) == KCC_OK);
    CHECK(kcc_summary_tokens(summary) == kRows * 6);
    CHECK(kcc_summary_requests(summary) == 2);
    kcc_text report = {NULL, 0};
    CHECK(kcc_judge(contract, summary, NULL, NULL, "json", &report) == KCC_OK);
    CHECK(strstr(report.data, verdicts[i]) != NULL);
    kcc_text_free(&report);
    CHECK(report.data == NULL);
    CHECK(kcc_judge(contract, summary, "offlin", NULL, "json", &report) == KCC_INVALID);
    CHECK(strstr(kcc_error(), "'offlin' is none of") != NULL);
    CHECK(kcc_summary_merge(summary, summary) == KCC_INVALID); /* the same requests twice */

    kcc_text bytes = {NULL, 0};
    kcc_summary* again = NULL;
    CHECK(kcc_summary_encode(summary, &bytes) == KCC_OK);
    CHECK(kcc_summary_decode(bytes.data, bytes.size, &again) == KCC_OK);
    CHECK(kcc_summary_tokens(again) == kRows * 6);
    CHECK(kcc_summary_decode(bytes.data, bytes.size - 1, &again) != KCC_OK);
    kcc_summary_free(again);
    kcc_text_free(&bytes);
    kcc_summary_free(summary);
  }
  kcc_contract_free(contract);
}

static void MeasuresInTwoParts(void) {
  static const char kRequests[] = "{\"id\": \"a\"}\n{\"id\": \"b\"}\n";
  const int64_t first[] = {0, 2 * kColumns};
  const int64_t counts[] = {2 * kColumns, 2 * kColumns};
  FillStep(0.01f);
  const kcc_arrays arrays = Arrays(kRequests, first, counts);
  kcc_summary* whole = NULL;
  kcc_summary* summary = NULL;
  kcc_measurement* measurement = NULL;
  CHECK(kcc_measure_arrays(&arrays, NULL, 1, &whole) == KCC_OK);
  CHECK(kcc_measure_begin(&arrays, NULL, 1, &measurement) == KCC_OK);
  CHECK(kcc_measure_finish(measurement, &summary) == KCC_OK);
  kcc_text bytes[2] = {{NULL, 0}, {NULL, 0}};
  CHECK(kcc_summary_encode(whole, &bytes[0]) == KCC_OK);
  CHECK(kcc_summary_encode(summary, &bytes[1]) == KCC_OK);
  CHECK(bytes[0].size == bytes[1].size && memcmp(bytes[0].data, bytes[1].data, bytes[0].size) == 0);
  kcc_text_free(&bytes[0]);
  kcc_text_free(&bytes[1]);
  CHECK(kcc_summary_backends(summary, &bytes[0]) == KCC_OK && bytes[0].size == 0);
  kcc_text_free(&bytes[0]);
  kcc_summary* again = NULL;
  CHECK(kcc_measure_finish(measurement, &again) == KCC_INVALID && again == NULL);
  kcc_measurement_free(measurement);
  CHECK(kcc_measure_begin(&arrays, NULL, 1, &measurement) == KCC_OK);
  kcc_measurement_free(measurement); /* given up */
  kcc_measurement_free(NULL);
  kcc_summary_free(summary);
  kcc_summary_free(whole);
}

static void DevicesThatAreNotThere(void) {
  CHECK(kcc_device_load("tpu", NULL) == KCC_INVALID);
  CHECK(strstr(kcc_error(), "'tpu' is not known") != NULL);
  CHECK(kcc_device_load("cuda", "/nowhere/libkcc_cuda.so") == KCC_IO);
  CHECK(strstr(kcc_error(), "/nowhere/libkcc_cuda.so is not there") != NULL);
  const int64_t first[] = {0, 16}, counts[] = {16, 16};
  kcc_arrays arrays = Arrays("{\"id\": \"a\"}\n{\"id\": \"b\"}\n", first, counts);
  arrays.device = "tpu";
  kcc_summary* summary = NULL;
  CHECK(kcc_measure_arrays(&arrays, NULL, 1, &summary) == KCC_INVALID && summary == NULL);
  CHECK(kcc_measure_traces_on("tpu", "a", "b", NULL, 1, &summary) == KCC_INVALID);
  CHECK(kcc_measure_traces_on(NULL, "a", "b", NULL, 1, &summary) == KCC_INVALID);
}

static void DiagnoseAndCorrect(void) {
  FillStep(0.01f);
  const kcc_rl_batch batch = Batch();
  kcc_rl_summary* summary = NULL;
  CHECK(kcc_rl_summary_new(&summary) == KCC_OK);
  CHECK(kcc_rl_summary_add(summary, &batch, 2) == KCC_OK);
  kcc_text figures = {NULL, 0};
  CHECK(kcc_rl_summary_figures(summary, 0.95, &figures) == KCC_OK);
  CHECK(strstr(figures.data, "\"tokens\": 24") != NULL);
  kcc_text_free(&figures);
  CHECK(kcc_rl_summary_figures(summary, 1.5, &figures) == KCC_INVALID);
  kcc_rl_summary_free(summary);

  float weights[kRows][kColumns];
  uint8_t kept[kRows][kColumns];
  const char* truncate =
      "{\"weight\": {\"mode\": \"truncate\", \"level\": \"token\", \"high\": 1.005}}";
  CHECK(kcc_rl_correct(&batch, truncate, 1, &weights[0][0], &kept[0][0], NULL) == KCC_OK);
  CHECK(fabsf(weights[0][0] - 1.005f) < 1e-6f);
  CHECK(weights[0][7] == 0.0f && kept[0][0] == 1 && kept[0][7] == 0);
  CHECK(kcc_rl_correct(&batch, "{\"weigth\": {}}", 1, &weights[0][0], NULL, NULL) == KCC_INVALID);
  CHECK(strstr(kcc_error(), "weigth") != NULL);

  kcc_rl_dialect* verl = NULL;
  CHECK(kcc_rl_dialect_run("verl", NULL, &batch, NULL, &verl) == KCC_OK);
  kcc_text metrics = {NULL, 0};
  CHECK(kcc_rl_dialect_metrics(verl, &metrics) == KCC_OK);
  CHECK(strstr(metrics.data, "rollout_corr/kl") != NULL);
  kcc_text_free(&metrics);
  kcc_rl_dialect_free(verl);
  CHECK(kcc_rl_dialect_run("varl", NULL, &batch, NULL, &verl) == KCC_INVALID);
}

/* Diagnosing and correcting in one visit gives what the two calls give, to the byte. */
static void StepIsAddAndCorrect(void) {
  FillStep(0.02f);
  train[2][3] = rollout[2][3] - 1.5f; /* rejected */
  kcc_rl_batch batch = Batch();
  double advantages[kRows * 2] = {1.0, 99.0, -1.0, 99.0, 0.5, 99.0, 2.0, 99.0};
  batch.advantages = (kcc_array){advantages, KCC_F64, 2};
  batch.advantage_per_row = 1;
  const char* correction =
      "{\"weight\": {\"mode\": \"truncate\", \"high\": 1.01},"
      " \"reject\": [{\"statistic\": \"ratio\", \"aggregate\": \"token\", \"low\": 0.5, \"high\": "
      "2}]}";
  kcc_rl_summary *one = NULL, *two = NULL;
  CHECK(kcc_rl_summary_new(&one) == KCC_OK && kcc_rl_summary_new(&two) == KCC_OK);
  float weights[2][kRows][kColumns];
  uint8_t kept[2][kRows][kColumns];
  kcc_text figures[2] = {{NULL, 0}, {NULL, 0}}, bytes[2] = {{NULL, 0}, {NULL, 0}};
  CHECK(kcc_rl_step(one, &batch, correction, 2, &weights[0][0][0], &kept[0][0][0], &figures[0]) ==
        KCC_OK);
  CHECK(kcc_rl_summary_add(two, &batch, 1) == KCC_OK);
  CHECK(kcc_rl_correct(&batch, correction, 1, &weights[1][0][0], &kept[1][0][0], &figures[1]) ==
        KCC_OK);
  CHECK(memcmp(weights[0], weights[1], sizeof weights[0]) == 0);
  CHECK(memcmp(kept[0], kept[1], sizeof kept[0]) == 0);
  CHECK(strcmp(figures[0].data, figures[1].data) == 0);
  CHECK(fabsf(weights[0][0][0] - 1.01f) < 1e-6f && weights[0][0][7] == 0.0f);
  CHECK(kcc_rl_summary_encode(one, &bytes[0]) == KCC_OK);
  CHECK(kcc_rl_summary_encode(two, &bytes[1]) == KCC_OK);
  CHECK(bytes[0].size == bytes[1].size && memcmp(bytes[0].data, bytes[1].data, bytes[0].size) == 0);
  kcc_text_free(&bytes[0]);
  kcc_text_free(&bytes[1]);
  kcc_text_free(&figures[0]);
  kcc_text_free(&figures[1]);
  /* The stride of advantages per row counts: 99 is never read. */
  kcc_text text = {NULL, 0};
  CHECK(kcc_rl_summary_figures(one, 0.95, &text) == KCC_OK);
  CHECK(strstr(text.data, "\"mean_abs_advantage\": 1.125") != NULL);
  kcc_text_free(&text);

  /* The mask may be updated in place; outputs and figures may be left out. */
  uint8_t own[kRows][kColumns];
  memcpy(own, mask, sizeof own);
  batch.mask.data = own;
  CHECK(kcc_rl_step(one, &batch, correction, 1, NULL, &own[0][0], NULL) == KCC_OK);
  CHECK(memcmp(own, kept[1], sizeof own) == 0);
  batch.mask.data = mask;

  /* On failure nothing was added. */
  CHECK(kcc_rl_summary_encode(two, &bytes[0]) == KCC_OK);
  train[3][1] = NAN;
  CHECK(kcc_rl_step(two, &batch, correction, 1, &weights[0][0][0], NULL, NULL) == KCC_BROKEN);
  CHECK(strstr(kcc_error(), "row 3, column 1") != NULL);
  train[3][1] = -1.0f;
  advantages[2] = NAN;
  CHECK(kcc_rl_step(two, &batch, correction, 1, NULL, NULL, NULL) == KCC_BROKEN);
  CHECK(strstr(kcc_error(), "advantage of row 1") != NULL);
  advantages[2] = 1.0;
  CHECK(kcc_rl_step(NULL, &batch, correction, 1, NULL, NULL, NULL) == KCC_INVALID);
  CHECK(kcc_rl_step(two, NULL, correction, 1, NULL, NULL, NULL) == KCC_INVALID);
  CHECK(kcc_rl_step(two, &batch, NULL, 1, NULL, NULL, NULL) == KCC_INVALID);
  CHECK(kcc_rl_step(two, &batch, "{", 1, NULL, NULL, NULL) == KCC_INVALID);
  CHECK(kcc_rl_step(two, &batch, correction, -1, NULL, NULL, NULL) == KCC_INVALID);
  CHECK(kcc_rl_summary_encode(two, &bytes[1]) == KCC_OK);
  CHECK(bytes[0].size == bytes[1].size && memcmp(bytes[0].data, bytes[1].data, bytes[0].size) == 0);
  kcc_text_free(&bytes[0]);
  kcc_text_free(&bytes[1]);
  kcc_rl_summary_free(one);
  kcc_rl_summary_free(two);
}

static void ReadsDumps(void) {
  const char* step[] = {"tests/data/import/prime_rl/step_3"};
  kcc_rl_dump* dump = NULL;
  CHECK(kcc_rl_dump_read(step, 1, NULL, &dump) == KCC_OK);
  kcc_rl_batch batch;
  memset(&batch, 0, sizeof batch);
  CHECK(kcc_rl_dump_batch(dump, &batch) == KCC_INVALID); /* struct_size */
  batch.struct_size = sizeof batch;
  CHECK(kcc_rl_dump_batch(dump, &batch) == KCC_OK);
  CHECK(batch.rows == 2 && batch.offsets[2] == 9 && batch.slice_count == 2);
  CHECK(strcmp(batch.slice_names[batch.slice_of_row[0]], "math") == 0);
  kcc_rl_summary* summary = NULL;
  kcc_text figures = {NULL, 0};
  CHECK(kcc_rl_summary_new(&summary) == KCC_OK);
  CHECK(kcc_rl_summary_add(summary, &batch, 1) == KCC_OK);
  CHECK(kcc_rl_summary_figures(summary, 0.95, &figures) == KCC_OK);
  CHECK(strstr(figures.data, "\"tokens\": 5") != NULL);
  kcc_text_free(&figures);
  kcc_rl_summary_free(summary);
  kcc_rl_dump_free(dump);
  kcc_rl_dump_free(NULL);
  const char* missing[] = {"nowhere.npz"};
  dump = NULL;
  CHECK(kcc_rl_dump_read(missing, 1, NULL, &dump) == KCC_IO);
  CHECK(strstr(kcc_error(), "nowhere.npz") != NULL && dump == NULL);
  CHECK(kcc_rl_dump_read(missing, 0, NULL, &dump) == KCC_INVALID);
}

static void RefusesWhatIsWrong(void) {
  FillStep(0.01f);
  kcc_rl_summary* summary = NULL;
  CHECK(kcc_rl_summary_new(&summary) == KCC_OK);
  kcc_rl_batch batch = Batch();
  batch.struct_size = 8;
  CHECK(kcc_rl_summary_add(summary, &batch, 1) == KCC_INVALID);
  batch = Batch();
  batch.rows = -1;
  CHECK(kcc_rl_summary_add(summary, &batch, 1) == KCC_INVALID);
  batch = Batch();
  batch.rows = INT64_MAX;
  CHECK(kcc_rl_summary_add(summary, &batch, 1) == KCC_INVALID);
  batch = Batch();
  batch.train.dtype = KCC_BF16;
  CHECK(kcc_rl_summary_add(summary, &batch, 1) == KCC_INVALID);
  batch = Batch();
  batch.rollout.data = NULL;
  CHECK(kcc_rl_summary_add(summary, &batch, 1) == KCC_INVALID);
  batch = Batch();
  CHECK(kcc_rl_summary_add(summary, &batch, -3) == KCC_INVALID);
  CHECK(kcc_rl_summary_add(NULL, &batch, 1) == KCC_INVALID);
  CHECK(strcmp(kcc_error(), "summary must not be NULL") == 0);
  train[1][2] = NAN;
  CHECK(kcc_rl_summary_add(summary, &batch, 1) == KCC_BROKEN);
  CHECK(strstr(kcc_error(), "row 1") != NULL);
  kcc_rl_summary_free(summary);
  kcc_rl_summary_free(NULL);

  kcc_contract* contract = NULL;
  CHECK(kcc_contract_parse("spec: [", 7, NULL, &contract) == KCC_INVALID);
  CHECK(contract == NULL);
  CHECK(kcc_contract_read("/nonexistent/contract.yaml", &contract) == KCC_IO);
  CHECK(strstr(kcc_error(), "/nonexistent/contract.yaml") != NULL);
}

#define SAME_PLACE(first, now, field)                                        \
  _Static_assert(offsetof(first, field) == offsetof(now, field) &&           \
                     sizeof(((first*)0)->field) == sizeof(((now*)0)->field), \
                 #field " has moved")

static void FieldsStayWhereTheyWere(void) {
  SAME_PLACE(first_array, kcc_array, data);
  SAME_PLACE(first_array, kcc_array, dtype);
  SAME_PLACE(first_array, kcc_array, row_stride);
  _Static_assert(sizeof(first_array) == sizeof(kcc_array),
                 "kcc_array has no struct_size to grow by");
  SAME_PLACE(first_arrays, kcc_arrays, train_logits);
  SAME_PLACE(first_arrays, kcc_arrays, infer_logits);
  SAME_PLACE(first_arrays, kcc_arrays, train_logprobs);
  SAME_PLACE(first_arrays, kcc_arrays, infer_logprobs);
  SAME_PLACE(first_arrays, kcc_arrays, rows);
  SAME_PLACE(first_arrays, kcc_arrays, vocab_size);
  SAME_PLACE(first_arrays, kcc_arrays, temperature);
  SAME_PLACE(first_arrays, kcc_arrays, requests_jsonl);
  SAME_PLACE(first_arrays, kcc_arrays, requests_jsonl_size);
  SAME_PLACE(first_arrays, kcc_arrays, requests);
  SAME_PLACE(first_arrays, kcc_arrays, first_rows);
  SAME_PLACE(first_arrays, kcc_arrays, row_counts);
  SAME_PLACE(first_arrays, kcc_arrays, positions);
  SAME_PLACE(first_arrays, kcc_arrays, tokens);
  SAME_PLACE(first_arrays, kcc_arrays, mask);
  SAME_PLACE(first_arrays, kcc_arrays, advantages);
  SAME_PLACE(first_arrays, kcc_arrays, train_fingerprint);
  SAME_PLACE(first_arrays, kcc_arrays, infer_fingerprint);
  SAME_PLACE(first_arrays, kcc_arrays, sampled_by);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, rows);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, columns);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, offsets);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, train);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, rollout);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, old_logprobs);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, mask);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, advantages);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, advantage_per_row);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, slice_of_row);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, slice_names);
  SAME_PLACE(first_rl_batch, kcc_rl_batch, slice_count);
}

/* A copy of exactly so many bytes, so that a tool that watches memory sees a read behind them. */
static void* Exactly(const void* from, size_t size) {
  char* copy = malloc(size);
  CHECK(copy != NULL);
  memcpy(copy, from, size);
  memcpy(copy, &size, sizeof size); /* struct_size comes first */
  return copy;
}

static void ServesOlderAndNewerHeaders(void) {
  FillStep(0.01f);
  const int64_t first[] = {0, 16}, counts[] = {16, 16};
  kcc_arrays arrays = Arrays("{\"id\": \"a\"}\n{\"id\": \"b\"}\n", first, counts);
  struct {
    kcc_arrays known;
    int64_t later;
  } newer;
  memset(&newer, 0, sizeof newer);
  newer.known = arrays;
  const size_t sizes[] = {sizeof(first_arrays), offsetof(kcc_arrays, sampling_temperature),
                          offsetof(kcc_arrays, device), sizeof(kcc_arrays), sizeof newer};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    kcc_arrays* sized = Exactly(&newer, sizes[i]);
    kcc_summary* summary = NULL;
    CHECK(kcc_measure_arrays(sized, NULL, 1, &summary) == KCC_OK);
    CHECK(kcc_summary_tokens(summary) == 24);
    kcc_summary_free(summary);
    free(sized);
  }
  kcc_summary* summary = NULL;
  newer.known.struct_size = sizeof newer;
  newer.later = 1; /* asks for something that this library cannot know */
  CHECK(kcc_measure_arrays(&newer.known, NULL, 1, &summary) == KCC_INVALID && summary == NULL);
  CHECK(strstr(kcc_error(), "older than the header") != NULL);
  arrays.struct_size = sizeof(first_arrays) - 1;
  CHECK(kcc_measure_arrays(&arrays, NULL, 1, &summary) == KCC_INVALID && summary == NULL);

  kcc_rl_batch batch = Batch();
  kcc_rl_summary* rl = NULL;
  CHECK(kcc_rl_summary_new(&rl) == KCC_OK);
  kcc_rl_batch* sized = Exactly(&batch, sizeof(first_rl_batch));
  CHECK(kcc_rl_summary_add(rl, sized, 1) == KCC_OK);
  free(sized);
  kcc_rl_summary_free(rl);

  const char* paths[] = {"examples/rl/step.safetensors"};
  kcc_rl_dump* dump = NULL;
  CHECK(kcc_rl_dump_read(paths, 1, NULL, &dump) == KCC_OK);
  memset(&batch, 0, sizeof batch);
  sized = Exactly(&batch, sizeof(first_rl_batch));
  CHECK(kcc_rl_dump_batch(dump, sized) == KCC_OK);
  CHECK(sized->rows > 0 && sized->struct_size == sizeof(first_rl_batch));
  free(sized);
  batch.struct_size = sizeof(first_rl_batch) - 1;
  CHECK(kcc_rl_dump_batch(dump, &batch) == KCC_INVALID);
  kcc_rl_dump_free(dump);
}

static void* FailElsewhere(void* seen) {
  kcc_contract* contract = NULL;
  CHECK(kcc_contract_read("/elsewhere", &contract) == KCC_IO);
  *(int*)seen = strstr(kcc_error(), "/elsewhere") != NULL;
  return NULL;
}

static void ErrorsArePerThread(void) {
  kcc_contract* contract = NULL;
  CHECK(kcc_contract_read("/here", &contract) == KCC_IO);
  pthread_t other;
  int seen = 0;
  CHECK(pthread_create(&other, NULL, FailElsewhere, &seen) == 0);
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(seen == 1);
  CHECK(strstr(kcc_error(), "/here") != NULL);
}

int main(void) {
  CHECK(kcc_abi_version() >= KCC_ABI_VERSION);
  CHECK(strlen(kcc_version()) > 0);
  MeasureAndJudge();
  MeasuresInTwoParts();
  DevicesThatAreNotThere();
  DiagnoseAndCorrect();
  StepIsAddAndCorrect();
  ReadsDumps();
  RefusesWhatIsWrong();
  FieldsStayWhereTheyWere();
  ServesOlderAndNewerHeaders();
  ErrorsArePerThread();
  puts("capi: all passed");
  return 0;
}
