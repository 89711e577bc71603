// Test only: random valid contracts with hostile texts in them, and changes of meaning to make to
// one. Contracts are built directly; that ReadContract accepts them is part of the round-trip test.
#pragma once

#include <rapidcheck.h>

#include <functional>
#include <string>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/hostile_text_gen.h"
#include "kcc/predicate/predicate_gen.h"

namespace kcc {

struct ContractGenOptions {
  bool hostile_texts = true;
  // Few metrics, thresholds and windows, so that two random contracts meet often.
  bool small_world = false;
};
rc::Gen<Contract> GenContract(ContractGenOptions options = {});

// A change of meaning. False if the contract has nothing it could change. Draws from RapidCheck,
// so it is called inside a property.
struct Mutation {
  std::string name;
  std::function<bool(Contract*)> apply;
};
const std::vector<Mutation>& Mutations();

}  // namespace kcc
