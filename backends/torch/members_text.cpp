#include "members_text.h"

#include <algorithm>
#include <memory>

#include "python_text.h"
#include "source_lines.h"

namespace meshwright::torch {

namespace {

// What a module has: parameters, buffers, other modules.
struct Tree {
  std::vector<std::pair<std::string, std::unique_ptr<Tree>>> children;  // in the model's order
  const Member* member = nullptr;
  const Block* block = nullptr;

  Tree& child(const std::string& name) {
    for (auto& [known, tree] : children) {
      if (known == name) return *tree;
    }
    children.emplace_back(name, std::make_unique<Tree>());
    return *children.back().second;
  }
};

const Block* block_with(const std::vector<Block>& blocks, const std::string& path) {
  for (const Block& block : blocks) {
    if (path.starts_with(block.prefix + ".")) return &block;
  }
  return nullptr;
}

Tree tree_of(const std::vector<Member>& members, const std::vector<Block>& blocks, const std::string& prefix) {
  const bool with_blocks = prefix.empty();
  Tree root;
  for (const Member& member : members) {
    const std::string path = prefix.empty() ? member.path : relative(member.path, prefix);
    if (path.empty()) continue;
    const Block* block = with_blocks ? block_with(blocks, member.path) : nullptr;
    Tree* here = &root;
    for (const std::string& part : split(block != nullptr ? relative(block->prefix, prefix) : path)) here = &here->child(part);
    if (block != nullptr) here->block = block;
    else here->member = &member;
  }
  if (!with_blocks) return root;
  for (const Block& block : blocks) {  // those without members too
    Tree* here = &root;
    for (const std::string& part : split(block.prefix)) here = &here->child(part);
    here->block = &block;
  }
  return root;
}

std::string repetition(const Tree& tree);

std::string expression(const Tree& tree) {
  if (tree.member != nullptr) return tree.member->text;
  if (tree.block != nullptr) return tree.block->class_name + "()";
  if (const std::string repeated = repetition(tree); !repeated.empty()) return repeated;
  std::vector<std::string> named, numbered;
  for (const auto& [name, child] : tree.children) {
    if (identifier(name) == name) named.push_back(name + "=" + expression(*child));
    else numbered.push_back(quoted(name) + ": " + expression(*child));
  }
  if (!numbered.empty()) named.push_back("**{" + join(numbered) + "}");
  return "parts(" + join(named) + ")";
}

// Blocks 0, 1, 2, ... alone: a list of modules; of one class: said once.
std::string repetition(const Tree& tree) {
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    if (tree.children[i].first != std::to_string(i) || tree.children[i].second->block == nullptr) return "";
    elements.push_back(expression(*tree.children[i].second));
  }
  if (elements.empty()) return "";
  if (elements.size() > 1 && std::all_of(elements.begin(), elements.end(), [&](const std::string& each) { return each == elements[0]; })) {
    return "nn.ModuleList([" + elements[0] + " for _ in range(" + std::to_string(elements.size()) + ")])";
  }
  return "nn.ModuleList(" + list(elements) + ")";
}

}  // namespace

std::string members_text(const std::vector<Member>& members, const std::vector<Block>& blocks, const std::string& prefix) {
  const Tree root = tree_of(members, blocks, prefix);
  std::string text;
  for (const auto& [name, child] : root.children) {
    if (!is_attribute(name, true)) {
      text += wrapped("        ", "self[" + (is_number(name) ? name : quoted(name)) + "] = " + expression(*child));
    } else if (child->member != nullptr && child->member->buffer) {
      text += wrapped("        ", "self.register_buffer(" + quoted(name) + ", " + child->member->text + ")");
    } else {
      text += wrapped("        ", "self." + name + " = " + expression(*child));
    }
  }
  return text;
}

}  // namespace meshwright::torch
