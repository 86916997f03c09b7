#include <string_view>

#include "translate.h"

namespace meshwright::torch_export {

namespace {

constexpr std::string_view kOps = "torch.ops.";
constexpr std::string_view kDefault = ".default";

bool is_dunder(std::string_view name) { return name.size() > 4 && name.starts_with("__") && name.ends_with("__"); }

// "__and__" is functional, "__iand__" and "add_" are not.
bool writes_into_operand(std::string_view base, std::string_view overload) {
  if (overload == "out" || overload.ends_with("_out")) return true;
  return is_dunder(base) ? base.starts_with("__i") : base.ends_with('_');
}

}  // namespace

std::optional<DType> dtype_of(int code) {
  switch (code) {
    case 1:
      return DType::uint8;
    case 2:
      return DType::int8;
    case 3:
      return DType::int16;
    case 4:
      return DType::int32;
    case 5:
      return DType::int64;
    case 6:
      return DType::float16;
    case 7:
      return DType::float32;
    case 8:
      return DType::float64;
    case 10:
      return DType::complex64;
    case 11:
      return DType::complex128;
    case 12:
      return DType::boolean;
    case 13:
      return DType::bfloat16;
    default:
      return std::nullopt;
  }
}

std::string op_name(const std::string& target) {
  std::string_view name = target;
  if (name.starts_with(kOps)) name.remove_prefix(kOps.size());
  if (name.ends_with(kDefault)) name.remove_suffix(kDefault.size());
  return std::string(name);
}

Status check_target(const std::string& target) {
  std::string_view name = target;
  if (!name.starts_with(kOps)) {
    return bad_input("'" + target +
                     "' computes with numbers, not tensors, so a shape depends on the data or is left open; " +
                     "every shape must be a fixed number");
  }
  name.remove_prefix(kOps.size());
  if (name.starts_with("higher_order.")) {
    return bad_input("'" + op_name(target) + "' is a higher-order operator, which holds a graph of its own; " +
                     "export the model without control flow, and call run_decompositions({})");
  }
  const std::size_t first = name.find('.');
  const std::size_t second = first == std::string_view::npos ? first : name.find('.', first + 1);
  const std::string_view base = first == std::string_view::npos ? name : name.substr(first + 1, second - first - 1);
  const std::string_view overload = second == std::string_view::npos ? "" : name.substr(second + 1);
  if (writes_into_operand(base, overload)) {
    return bad_input("'" + op_name(target) + "' works in place; call run_decompositions({}) on the exported program, " +
                     "or write the file with meshwright.export");
  }
  return Done{};
}

std::string innermost_module(const std::string& module_stack) {
  std::string_view entry = module_stack;
  entry.remove_prefix(entry.find_last_of(';') == std::string_view::npos ? 0 : entry.find_last_of(';') + 1);
  const std::size_t first = entry.find(',');
  if (first == std::string_view::npos) return "";
  entry.remove_prefix(first + 1);
  return std::string(entry.substr(0, entry.find(',')));
}

}  // namespace meshwright::torch_export
