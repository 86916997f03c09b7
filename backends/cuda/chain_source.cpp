#include "chain_source.h"

#include <array>
#include <map>
#include <tuple>
#include <utility>

// The headers as they are.
asm(".section .rodata\n"
    "meshwright_kernel_header: .incbin \"" MESHWRIGHT_KERNELS
    "/kernel.h\"\n.byte 0\n"
    "meshwright_functions_header: .incbin \"" MESHWRIGHT_KERNELS
    "/functions.h\"\n.byte 0\n"
    "meshwright_pointwise_header: .incbin \"" MESHWRIGHT_KERNELS
    "/pointwise.h\"\n.byte 0\n"
    "meshwright_chains_header: .incbin \"" MESHWRIGHT_KERNELS
    "/chains.h\"\n.byte 0\n"
    ".previous\n");
extern "C" const char meshwright_kernel_header[], meshwright_functions_header[], meshwright_pointwise_header[],
    meshwright_chains_header[];

namespace meshwright::cuda {

namespace {

std::string number_of(auto value) { return std::to_string(static_cast<std::int64_t>(value)); }

std::string element(Element of) { return "Element(" + number_of(of) + ")"; }

// What a thread does, line by line: each value once, as in a program in SSA form.
class Writer {
 public:
  explicit Writer(const ChainArguments& chain) : chain_(chain) {}

  std::string written() {
    if (chain_.strided > 0)
      text_ += "  const ChainPlace place = chain_place<" + number_of(chain_.rank) + ">(arguments, index);\n";
    for (int l = 0; l < chain_.links; ++l) write(l);
    for (int l = 0; l < chain_.links; ++l) {
      if (is_last_at(l)) store(l);
    }
    return std::move(text_);
  }

 private:
  void write(int l) {
    const ChainLink& link = chain_.link[l];
    std::string operands;
    for (int o = 0; o < link.operands; ++o) operands += ", " + operand(l, o);
    text_ += "  const Numbers made" + number_of(l) + " = made_by<Function(" + number_of(link.function) + "), " +
             element(link.of_result) + ">(arguments.link[" + number_of(l) + "]" + operands + ");\n";
  }

  // The name of what a link has there: made by another one, or loaded, once.
  std::string operand(int l, int o) {
    const ChainLink& link = chain_.link[l];
    if ((link.handed >> static_cast<unsigned>(o) & 1U) != 0) return "made" + number_of(l - 1);
    for (int made = l; made-- > 0;) {
      if (chain_.link[made].stores && chain_.link[made].result == link.operand[o]) return "made" + number_of(made);
    }
    const int lies = link.lies[o];
    const auto [found, is_new] =
        loaded_.emplace(std::tuple(link.operand[o], link.of_operand[o], lies), "read" + number_of(loaded_.size()));
    if (!is_new) return found->second;
    const std::string data = "(arguments.link[" + number_of(l) + "].operand[" + number_of(o) + "], ",
                      of = element(link.of_operand[o]);
    text_ += "  const Numbers " + found->second + " = ";
    if (lies == 0) {
      text_ += "loaded<" + of + ", kIsWhole>" + data + "index, count);\n";
    } else {
      const bool repeats = chain_.strides[lies - 1][chain_.rank - 1] == 0;
      text_ += "loaded_at<" + of + ", " + number_of(chain_.rank) + (repeats ? ", true>" : ", false>") + data +
               "arguments.strides[" + number_of(lies - 1) + "], place);\n";
    }
    return found->second;
  }

  [[nodiscard]] bool is_last_at(int l) const {
    for (int later = l + 1; later < chain_.links; ++later) {
      if (chain_.link[later].is_wanted && chain_.link[later].result == chain_.link[l].result) return false;
    }
    return chain_.link[l].is_wanted;
  }

  void store(int l) {
    text_ += "  write_back<" + element(chain_.link[l].of_result) + ", kIsWhole>(arguments.link[" + number_of(l) +
             "].result, index, count, made" + number_of(l) + ");\n";
  }

  const ChainArguments& chain_;
  std::string text_;
  std::map<std::tuple<const void*, Element, int>, std::string> loaded_;
};

}  // namespace

std::string chain_shape(const ChainArguments& chain) { return Writer(chain).written(); }

std::string chain_source(const std::vector<std::string>& shapes) {
  std::string source = "#include \"chains.h\"\nnamespace meshwright::cuda {\n";
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "chain_" + std::to_string(i);
    source += "template <bool kIsWhole>\nMESHWRIGHT_DEVICE void thread_of_" + name +
              "(const ChainArguments& arguments, int64_t index, [[maybe_unused]] int64_t count) {\n" + shapes[i] +
              "}\nMESHWRIGHT_KERNEL(" + name + ", ChainArguments) {\n" +
              "  const int64_t rest = arguments.elements - index * kTogether;\n"
              "  if (rest >= kTogether)\n    thread_of_" +
              name + "<true>(arguments, index, rest);\n  else\n    thread_of_" + name +
              "<false>(arguments, index, rest);\n}\n";
  }
  return source + "}\n";
}

std::span<const ChainHeader> chain_headers() {
  static const std::array<ChainHeader, 4> headers{{{"kernel.h", meshwright_kernel_header},
                                                   {"functions.h", meshwright_functions_header},
                                                   {"pointwise.h", meshwright_pointwise_header},
                                                   {"chains.h", meshwright_chains_header}}};
  return headers;
}

}  // namespace meshwright::cuda
