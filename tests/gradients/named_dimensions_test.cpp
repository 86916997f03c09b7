// Every case that names dimensions, with ones that its tensors do not have: each is refused with a sentence, by the rule and by
// the meaning.
#include <gtest/gtest.h>

#include "case_runner.h"

namespace meshwright {
namespace {

TEST(NamedDimensions, ThatTheTensorsDoNotHaveAreRefused) {
  const std::unique_ptr<OpTable> ops = test::open_ops();
  int tried = 0;
  for (const std::string& family : test::families_with_cases()) {
    for (OpCase& op_case : test::read_cases(family)) {
      Node& node = op_case.graph.nodes[0];
      if (!node.op.starts_with("aten.") || node.op == "aten.tile") continue;
      for (const std::int64_t dim : {7, -9}) {
        Node wrong = node;
        for (const char* attribute : {"dim", "dims", "dim0", "dim1", "dimension"}) {
          const auto found = wrong.attributes.find(attribute);
          if (found == wrong.attributes.end()) continue;
          const bool is_list = std::holds_alternative<std::vector<std::int64_t>>(found->second);
          found->second = is_list ? Attribute(std::vector{dim}) : Attribute(dim);
        }
        if (wrong.attributes == node.attributes) continue;
        ++tried;
        const OpCall call = make_call(op_case.graph, wrong);
        const Result<Rule> rule = ops->find(node.op)->rule(call);
        ASSERT_FALSE(rule.ok()) << family << ", case " << op_case.number;
        EXPECT_EQ(rule.error().code, ErrorCode::bad_input) << rule.error().message;
        std::vector<Tensor> values;
        for (const TensorType& type : call.operands) values.emplace_back(type);
        std::vector<const Tensor*> operands;
        for (const Tensor& value : values) operands.push_back(&value);
        EXPECT_FALSE(ops->find(node.op)->evaluate(call, operands).ok()) << family << ", case " << op_case.number;
      }
    }
  }
  EXPECT_GT(tried, 100);
}

}  // namespace
}  // namespace meshwright
