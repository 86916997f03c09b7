#include "python_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace meshwright::torch {

namespace {

std::vector<std::string> texts(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> parts;
  for (const std::int64_t value : numbers) parts.push_back(std::to_string(value));
  return parts;
}

}  // namespace

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string all;
  for (std::size_t i = 0; i < parts.size(); ++i) all += (i > 0 ? std::string(between) : "") + parts[i];
  return all;
}

std::string tuple(const std::vector<std::string>& parts) { return "(" + join(parts) + (parts.size() == 1 ? ",)" : ")"); }
std::string tuple(const std::vector<std::int64_t>& numbers) { return tuple(texts(numbers)); }
std::string list(const std::vector<std::string>& parts) { return "[" + join(parts) + "]"; }

std::string number(double value) {
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string dtype(DType type) { return "torch." + std::string(name(type)); }

std::string literal(const Attribute& value) {
  struct Writer {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool truth) const { return truth ? "True" : "False"; }
    std::string operator()(std::int64_t integer) const { return std::to_string(integer); }
    std::string operator()(double real) const { return number(real); }
    std::string operator()(const std::string& text) const { return quoted(text); }
    std::string operator()(const std::vector<std::int64_t>& integers) const { return list(texts(integers)); }
    std::string operator()(const std::vector<double>& reals) const {
      std::vector<std::string> parts;
      for (const double real : reals) parts.push_back(number(real));
      return list(parts);
    }
  };
  return std::visit(Writer{}, value);
}

std::string positions(const Attributes& attributes, const RankAttributes& rank_attributes, const std::string& name) {
  const auto starts = rank_attributes.find(name + "_starts");
  if (starts == rank_attributes.end()) return "";
  const auto integers = [&](const char* what) {
    const auto found = attributes.find(name + what);
    const auto* values = found == attributes.end() ? nullptr : std::get_if<std::vector<std::int64_t>>(&found->second);
    return tuple(values ? *values : std::vector<std::int64_t>{});
  };
  std::vector<std::string> steps;
  for (const auto& step : starts->second.steps) steps.push_back(tuple(step));
  return "positions(" + integers("_atoms") + ", " + integers("_extents") + ", " + tuple(starts->second.base) + ", " + tuple(steps) + ")";
}

}  // namespace meshwright::torch
