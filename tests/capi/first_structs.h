/* The structs that grow, as the first header had them, under names of their own. Never changed: a
 * program that was compiled with that header must be served. A struct that is new in kcc.h gets its
 * copy here when it is first released. */
#ifndef KCC_TESTS_CAPI_FIRST_STRUCTS_H_
#define KCC_TESTS_CAPI_FIRST_STRUCTS_H_

#include <stddef.h>
#include <stdint.h>

typedef struct first_array {
  const void* data;
  int dtype;
  int64_t row_stride;
} first_array;

typedef struct first_arrays {
  size_t struct_size;
  first_array train_logits, infer_logits;
  first_array train_logprobs, infer_logprobs;
  int64_t rows;
  int64_t vocab_size;
  double temperature;
  const char* requests_jsonl;
  size_t requests_jsonl_size;
  int64_t requests;
  const int64_t* first_rows;
  const int64_t* row_counts;
  const int32_t* positions;
  const int32_t* tokens;
  const uint8_t* mask;
  const float* advantages;
  const char* train_fingerprint;
  const char* infer_fingerprint;
  const char* sampled_by;
} first_arrays;

typedef struct first_rl_batch {
  size_t struct_size;
  int64_t rows, columns;
  const int64_t* offsets;
  first_array train, rollout;
  first_array old_logprobs;
  first_array mask;
  first_array advantages;
  int advantage_per_row;
  const int32_t* slice_of_row;
  const char* const* slice_names;
  int32_t slice_count;
} first_rl_batch;

typedef struct first_column {
  const char* name;
  const double* values;
  const double* upper;
} first_column;

typedef struct first_observation {
  size_t struct_size;
  int64_t time_ms;
  const char* kernel;
  const char* session;
  int probe;
  int audited;
  int one_record;
  const char* infer_request;
  const char* train_request;
  const char* asked_request;
  int64_t rows;
  int64_t masked;
  const int32_t* positions;
  const int32_t* tokens;
  const int32_t* gold;
  const int32_t* infer_argmax;
  const int32_t* train_argmax;
  const double* advantages;
  const first_column* columns;
  int64_t column_count;
} first_observation;

#endif /* KCC_TESTS_CAPI_FIRST_STRUCTS_H_ */
