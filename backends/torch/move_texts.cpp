#include "move_texts.h"

#include "layout_text.h"
#include "python_text.h"

namespace meshwright::torch {

std::vector<std::string> move_texts(const ShardedType& from, const std::vector<Move>& moves, const Mesh& mesh) {
  std::vector<std::string> texts;
  ShardedType here = from;
  for (const Move& move : moves) {
    std::vector<std::string> parts;
    for (const Move& single : in_turn(here.layout, move)) {
      for (std::string& part : torch::moves(here, single, mesh)) parts.push_back(std::move(part));
      here.layout = single.result;
    }
    if (move.joined != 0) parts = {"at_once(" + join(parts) + ")"};
    texts.insert(texts.end(), parts.begin(), parts.end());
  }
  return texts;
}

}  // namespace meshwright::torch
