#include "plugins/elf_section.h"

#include <elf.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

namespace meshwright::host {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
#error "name this machine's ELF number"
#endif

constexpr std::uint64_t kLargestSection = 64 * 1024;

// The file and its length; reads only ranges that lie inside it.
class BoundedFile {
 public:
  explicit BoundedFile(const std::string& path) : stream_(path, std::ios::binary) {
    if (stream_.seekg(0, std::ios::end)) size_ = static_cast<std::uint64_t>(stream_.tellg());
  }

  [[nodiscard]] bool open() const { return stream_.is_open() && stream_.good(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  bool read(std::uint64_t offset, void* target, std::uint64_t length) {
    if (offset > size_ || length > size_ - offset) return false;
    stream_.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(stream_.read(static_cast<char*>(target), static_cast<std::streamsize>(length)));
  }

  template <class T>
  std::optional<std::vector<T>> read_table(std::uint64_t offset, std::uint64_t count) {
    std::vector<T> table(count);  // count is a 16-bit number of the header, so this stays small
    if (!read(offset, table.data(), count * sizeof(T))) return std::nullopt;
    return table;
  }

 private:
  std::ifstream stream_;
  std::uint64_t size_ = 0;
};

Error truncated(const std::string& path) {
  return plugin_failed(path +
                       ": the file is truncated (it is shorter than its own section table says); copy or build "
                       "it again");
}

Error damaged(const std::string& path) {
  return plugin_failed(path + ": the file's section table is damaged; build it again");
}

Status check_header(const std::string& path, const Elf64_Ehdr& header) {
  const bool native =
      header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_machine == kMachine;
  if (!native) return plugin_failed(path + ": built for another machine; build it for this one");
  if (header.e_type != ET_DYN) return plugin_failed(path + ": an ELF file, but not a shared library");
  if (header.e_shoff != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) return damaged(path);
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) return damaged(path);
  return Done{};
}

}  // namespace

Result<std::string> read_elf_section(const std::string& path, std::string_view name) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) return bad_input(path + ": there is no such file");
  if (!std::filesystem::is_regular_file(status)) return bad_input(path + ": not a regular file");
  errno = 0;
  BoundedFile file(path);
  if (!file.open()) return bad_input(path + ": can't be read (" + std::strerror(errno) + ")");

  Elf64_Ehdr header{};
  unsigned char magic[SELFMAG] = {};
  if (!file.read(0, magic, sizeof magic) || std::memcmp(magic, ELFMAG, SELFMAG) != 0) {
    return plugin_failed(path + ": not an ELF file, so not a plugin");
  }
  if (!file.read(0, &header, sizeof header)) return truncated(path);
  if (Status checked = check_header(path, header); !checked) return checked.error();

  const auto sections = file.read_table<Elf64_Shdr>(header.e_shoff, header.e_shoff == 0 ? 0 : header.e_shnum);
  const auto segments = file.read_table<Elf64_Phdr>(header.e_phoff, header.e_phnum);
  if (!sections || !segments) return truncated(path);
  const auto inside = [&file](std::uint64_t offset, std::uint64_t length) {
    return offset <= file.size() && length <= file.size() - offset;
  };
  for (const Elf64_Shdr& section : *sections) {
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL && !inside(section.sh_offset, section.sh_size)) {
      return truncated(path);
    }
  }
  for (const Elf64_Phdr& segment : *segments) {
    if (!inside(segment.p_offset, segment.p_filesz)) return truncated(path);
  }

  const Error missing = plugin_failed(path + ": has no section " + std::string(name) +
                                      ", so not a plugin; build it with MESHWRIGHT_PLUGIN of meshwright/plugin.h");
  if (sections->empty()) return missing;
  if (header.e_shstrndx >= sections->size()) return damaged(path);
  const Elf64_Shdr& names = (*sections)[header.e_shstrndx];
  for (const Elf64_Shdr& section : *sections) {
    if (section.sh_type != SHT_PROGBITS) continue;
    if (section.sh_name >= names.sh_size) return damaged(path);
    std::string found(std::min<std::uint64_t>(name.size() + 1, names.sh_size - section.sh_name), '\0');
    if (!file.read(names.sh_offset + section.sh_name, found.data(), found.size())) return damaged(path);
    if (found.size() != name.size() + 1 || found.back() != '\0' || found.compare(0, name.size(), name) != 0) continue;
    if (section.sh_size > kLargestSection) return damaged(path);
    std::string content(section.sh_size, '\0');
    if (!file.read(section.sh_offset, content.data(), content.size())) return truncated(path);
    return content;
  }
  return missing;
}

}  // namespace meshwright::host
