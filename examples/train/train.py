"""A small transformer learns the letters of Northanger Abbey: python train.py, or torchrun --nproc-per-node 4 train.py"""
from pathlib import Path
import torch
from torch import distributed, nn
import meshwright

TEXT = torch.tensor(list((Path(__file__).parent / "northanger_abbey.txt").read_bytes()))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.letter, self.place = nn.Embedding(128, 128), nn.Parameter(torch.zeros(64, 128))
        block = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks, self.head = nn.TransformerEncoder(block, 2, enable_nested_tensor=False), nn.Linear(128, 128)
    def forward(self, letters, following):
        past = nn.Transformer.generate_square_subsequent_mask(64)
        scores = self.head(self.blocks(self.letter(letters) + self.place, mask=past, is_causal=True))
        return nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())

def batch(step):
    starts = torch.randint(len(TEXT) - 64, (16, 1), generator=torch.Generator().manual_seed(step))
    return TEXT[starts + torch.arange(64)], TEXT[starts + torch.arange(1, 65)]

torch.manual_seed(0)
model = Model()
if distributed.is_torchelastic_launched():
    model = meshwright.autoparallelize(model, batch(0))
local = getattr(model, "local_batch", tuple)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(300):
    loss = model(*local(batch(step)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if not distributed.is_initialized() or distributed.get_rank() == 0:
        print(step, loss.item(), flush=True)
