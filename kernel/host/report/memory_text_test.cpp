#include "report/memory_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "numbered_name.h"
#include "report/memory_svg.h"
#include "units.h"

namespace meshwright::host {
namespace {

TEST(SizeText, HasThreeDigits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(999), "999 B");
  EXPECT_EQ(size_text(1000), "0.98 KiB");
  EXPECT_EQ(size_text(1536), "1.50 KiB");
  EXPECT_EQ(size_text(std::int64_t{12} << 30), "12.0 GiB");
  EXPECT_EQ(size_text((std::int64_t{80} << 30) * 2), "160 GiB");
}

TEST(NumberedName, FindsTheFirstNumberBetweenDots) {
  EXPECT_EQ(numbered_name("h.11.mlp").pattern, "h.#.mlp");
  EXPECT_EQ(numbered_name("h.11.mlp.3").number, "11");
  EXPECT_EQ(numbered_name("h.11.mlp.3").pattern, "h.#.mlp.3");
  EXPECT_EQ(numbered_name("conv1.bn2").number, "");
  EXPECT_EQ(numbered_name("h.12345678901234567890.mlp").number, "") << "no number of a layer";
}

TEST(NameNumbers, AreShownAsRuns) {
  const auto text = [](const std::vector<std::string>& numbers) {
    NameNumbers set;
    for (const std::string& number : numbers) set.add(number);
    return set.text("h.#.mlp");
  };
  EXPECT_EQ(text({"0", "1", "2", "3"}), "h.{0-3}.mlp");
  EXPECT_EQ(text({"7"}), "h.7.mlp");
  EXPECT_EQ(text({"5", "0", "1", "2"}), "h.{0-2,5}.mlp");
  EXPECT_EQ(text({"0", "2", "4", "6", "8", "10"}), "h.{0,2..10}.mlp");
  EXPECT_EQ(NameNumbers().text("conv1.bn2"), "conv1.bn2");
}

MemoryProfile profile_of(const std::vector<std::int64_t>& bytes) {
  MemoryProfile profile;
  for (const std::int64_t here : bytes) {
    MemoryProfile::Point& point = profile.curve.emplace_back();
    point.at.instruction = profile.curve.size() - 1;
    point.held[MemoryKind::activation] = here;
    if (here <= profile.peak_bytes) continue;
    profile.peak_bytes = here;
    profile.peak = profile.curve.size() - 1;
  }
  return profile;
}

Program program_of(std::size_t instructions) {
  Program program;
  program.name = "a<b>&\"c\"";
  program.instructions.resize(instructions);
  for (std::size_t i = instructions / 2; i < instructions; ++i) program.instructions[i].phase = Phase::backward;
  for (Instruction& instruction : program.instructions) instruction.name = "x<y>";
  return program;
}

TEST(HighestOfColumns, KeepsThePeak) {
  std::vector<std::int64_t> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::int64_t>(i * 37 % 991);
  const MemoryProfile profile = profile_of(bytes);
  const std::vector<std::size_t> columns = highest_of_columns(profile, 96);
  ASSERT_EQ(columns.size(), 96U);
  EXPECT_TRUE(std::is_sorted(columns.begin(), columns.end()));
  EXPECT_NE(std::find(columns.begin(), columns.end(), profile.peak), columns.end());
  EXPECT_EQ(highest_of_columns(profile_of({1, 2, 3}), 96).size(), 3U);
  EXPECT_TRUE(highest_of_columns(profile_of({}), 96).empty());
}

TEST(MemoryText, MarksPhasesAndPeak) {
  const MemoryProfile profile =
      profile_of({1024, 2048, 4096, 8192, 16384, 12288, 12288, 4096, 2048, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const std::string text = memory_text(program_of(20), profile, 5);
  EXPECT_NE(text.find("forward   |backward"), std::string::npos) << text;
  EXPECT_NE(text.find("16.0 KiB ┤    █"), std::string::npos) << text;
  EXPECT_NE(text.find("Peak 16.0 KiB in the forward of"), std::string::npos) << text;
}

TEST(AccountText, NamesWhatIsThereAndWhatStaysFree) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  MemoryAccount account;
  account.program_bytes = 70 * kGiB;
  EXPECT_EQ(account_text(account, 80 * kGiB), "");  // the program is all that is known
  account.context_bytes = kGiB / 2;
  account.communicators = 2;
  account.communicator_bytes = 3 * kGiB / 2;
  EXPECT_EQ(account_text(account, 80 * kGiB),
            "Of the 80.0 GiB of a device\n"
            "  tensors of the program  70.0 GiB\n"
            "  context                  512 MiB\n"
            "  2 communicators         1.50 GiB\n"
            "  free                    8.00 GiB\n");
  const std::string lacking = account_text(account, 71 * kGiB);
  EXPECT_NE(lacking.find("lacking                 1.00 GiB"), std::string::npos) << lacking;
}

TEST(MemorySvg, IsWholeAndEscaped) {
  const MemoryProfile profile = profile_of({1024, 2048, 4096, 8192});
  MemoryProfile named = profile;
  named.peak_node = "x<y>";
  const std::string svg = memory_svg(program_of(4), named);
  EXPECT_EQ(svg.find("<svg"), 0U);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;&quot;c&quot;"), std::string::npos);
  EXPECT_EQ(svg.find("x<y>"), std::string::npos);
  EXPECT_NE(svg.find("backward</text>"), std::string::npos);
  EXPECT_EQ(svg, memory_svg(program_of(4), named));
}

TEST(MemorySvg, CutsALongNameBetweenCharacters) {
  MemoryProfile profile = profile_of({1024, 2048, 4096, 8192});
  for (const std::size_t length : {100U, 101U, 102U, 103U, 104U}) {
    profile.peak_node = std::string(length, 'x');
    for (int i = 0; i < 100; ++i) profile.peak_node += "\u00e9";
    const std::string svg = memory_svg(program_of(4), profile);
    const std::size_t end = svg.find("...</text>");
    ASSERT_NE(end, std::string::npos);
    EXPECT_TRUE(svg[end - 1] == 'x' || svg.substr(end - 2, 2) == "\u00e9") << length;
  }
}

TEST(MemorySvg, OfNothingIsADrawing) {
  const std::string svg = memory_svg(program_of(0), profile_of({}));
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::host
