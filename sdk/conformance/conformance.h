// Holds the rules of an op family against the truth: small calls are executed sharded, in every way that their rules
// allow, and compared with the same call on one device, forward and backward (DESIGN §2, "Sharding rules").
//
// A rule says over which factors ranks reduce or exchange something inside the op: what the op sends must be along those axes, and
// the search must price it, and what the backward sends and converts inside, as the program runs it.
//
// The call is followed by a weighted sum of its results, so that every result and every gradient counts. Partial values
// are random shares, if the backend is asked for that, so that a claim to be linear is tested too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/conversion.h"
#include "meshwright/op.h"
#include "meshwright/program_pass.h"
#include "meshwright/result.h"
#include "op_case.h"

namespace meshwright {

struct ConformanceTools {
  const OpTable& ops;
  const ConversionSearch& conversions;
  std::vector<const ProgramPass*> passes;  // the required ones, in their order
  const Backend& backend;                  // runs programs
};

struct ConformanceOptions {
  std::size_t samples = 24;    // of the assignments on 2x2x2, drawn by `seed`
  bool sample_planes = false;  // on 2x2 too, instead of all of them
  std::uint64_t seed = 1;
  bool look_for_more = true;   // whether factors that are marked whole could shard
  double tolerance = 1e-5;     // |Δ| over the tensor's largest value; float64 cases come down to 1e-12
};

struct ConformanceFinding {
  std::string call;        // "aten.softmax.int, case 3"
  std::string mesh;        // "2x2"
  std::string assignment;  // "axis 0: d0, axis 1: repeat"
  std::string problem;
};

struct ConformanceReport {
  std::int64_t calls = 0;
  std::int64_t assignments = 0;               // executed and compared
  std::vector<ConformanceFinding> wrong;      // what the rules claim and is not so
  std::vector<std::string> could_shard;       // what is so and the rules do not claim
  std::vector<std::string> replicated;        // calls that their family refuses a rule, which then run replicated
  std::vector<std::string> not_executed;      // calls without a meaning or a gradient to execute, and why
};

// Every assignment of mesh axes to factors on the meshes 2 and (unless it is sampled) 2x2, and a seeded sample on 2x2x2.
ConformanceReport check_conformance(const std::vector<OpCase>& cases, const ConformanceTools& tools,
                                    const ConformanceOptions& options = {});

std::string to_string(const ConformanceFinding& finding);

}  // namespace meshwright
