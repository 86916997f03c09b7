// A file that is damaged in any place is refused by the reader, and never reaches dlopen.
#include "plugins/elf_section.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "fixture_folder.h"

namespace meshwright::host {
namespace {

std::string good_bytes() {
  std::ifstream file(fixture("good/good.so"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string message_of(const std::string& path) {
  const Result<std::string> section = read_elf_section(path, ".meshwright.plugin");
  return section ? "read" : section.error().message;
}

// The good file with its ELF header changed.
template <class Change>
std::string changed_header(const TemporaryFolder& folder, Change change) {
  std::string bytes = good_bytes();
  Elf64_Ehdr header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  change(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return folder.write("changed.so", bytes);
}

TEST(ElfSection, ReadsTheSection) {
  const Result<std::string> section = read_elf_section(fixture("good/good.so"), ".meshwright.plugin");
  ASSERT_TRUE(section.ok());
  EXPECT_TRUE(section->starts_with("meshwright-plugin\nkind=fixture\nid=good\n")) << *section;
  EXPECT_FALSE(read_elf_section(fixture("good/good.so"), ".meshwright.plug").ok()) << "a prefix is another name";
  EXPECT_FALSE(read_elf_section(fixture("good/good.so"), ".meshwright.plugins").ok());
}

TEST(ElfSection, RefusesAFileCutOffAnywhere) {
  const TemporaryFolder folder;
  const std::string bytes = good_bytes();
  for (std::size_t length = 4; length < bytes.size(); length += 61) {
    const std::string path = folder.write("cut.so", std::string_view(bytes).substr(0, length));
    ASSERT_EQ(message_of(path), path +
                                    ": the file is truncated (it is shorter than its own section table says); copy or "
                                    "build it again")
        << "at " << length << " of " << bytes.size();
  }
}

TEST(ElfSection, RefusesAHeaderThatLies) {
  const TemporaryFolder folder;
  const std::string path = folder.path("changed.so");
  const std::string damaged = path + ": the file's section table is damaged; build it again";
  EXPECT_EQ(message_of(changed_header(folder, [](Elf64_Ehdr& h) { h.e_ident[EI_CLASS] = ELFCLASS32; })),
            path + ": built for another machine; build it for this one");
  EXPECT_EQ(message_of(changed_header(folder, [](Elf64_Ehdr& h) { h.e_machine = EM_SPARC; })),
            path + ": built for another machine; build it for this one");
  EXPECT_EQ(message_of(changed_header(folder, [](Elf64_Ehdr& h) { h.e_type = ET_REL; })),
            path + ": an ELF file, but not a shared library");
  EXPECT_EQ(message_of(changed_header(folder, [](Elf64_Ehdr& h) { h.e_shentsize = 1; })), damaged);
  EXPECT_EQ(message_of(changed_header(folder, [](Elf64_Ehdr& h) { h.e_phentsize = 1; })), damaged);
  EXPECT_EQ(message_of(changed_header(folder, [](Elf64_Ehdr& h) { h.e_shstrndx = 0xfff0; })), damaged);
  EXPECT_EQ(message_of(changed_header(folder, [](Elf64_Ehdr& h) { h.e_shoff = ~0ULL - 8; })),
            path + ": the file is truncated (it is shorter than its own section table says); copy or build it again");
  EXPECT_EQ(message_of(changed_header(folder, [](Elf64_Ehdr& h) { h.e_shnum = 0; })),
            path +
                ": has no section .meshwright.plugin, so not a plugin; build it with MESHWRIGHT_PLUGIN of "
                "meshwright/plugin.h");
}

// Whatever the bytes are, the reader answers. Under a sanitizer this also shows that it reads inside its buffers.
TEST(ElfSection, SurvivesRandomDamage) {
  const TemporaryFolder folder;
  const std::string bytes = good_bytes();
  Elf64_Ehdr header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = bytes;
    const std::size_t start = round % 2 == 0 ? 0 : header.e_shoff;
    const std::size_t length = round % 2 == 0 ? sizeof header : bytes.size() - header.e_shoff;
    for (int i = 0; i < 4; ++i) damaged[start + random() % length] = static_cast<char>(random());
    if (!read_elf_section(folder.write("damaged.so", damaged), ".meshwright.plugin")) ++refused;
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace meshwright::host
