"""What autoparallelize refuses of its arguments: by name, the arguments beside the model, and what rank 0 says.

See run.py and failing.py.
"""

from __future__ import annotations

from models import letters

LETTERS_GIVEN, FOLLOWING = letters(1, 8), letters(2, 8)
BOTH = (LETTERS_GIVEN, FOLLOWING)
TAKES = r"the sample inputs do not fit the model, whose forward takes \(letters, following, scale, mask\): "

BAD_INPUT: dict[str, tuple[tuple, dict, str]] = {
    "mesh_is_a_number": ((BOTH,), {"mesh": 4}, r"mesh=4 is not a tuple of sizes of axes; for 2 ranks give mesh=\(2,\), or leave it out .*"),
    "mesh_below_one": ((BOTH,), {"mesh": (-1, -2)}, r"mesh=\(-1, -2\) is not a tuple of sizes of axes; .*"),
    "mesh_is_text": ((BOTH,), {"mesh": "2x1"}, r"mesh='2x1' is not a tuple of sizes of axes; .*"),
    "wrong_input_name": (({"letters": LETTERS_GIVEN, "folowing": FOLLOWING},), {},
                         TAKES + r"got an unexpected keyword argument 'folowing'; did you mean 'following'\?"),
    "missing_input": (({"following": FOLLOWING},), {}, TAKES + r"missing a required argument: 'letters'"),
    "too_many_inputs": (((*BOTH, 1.0, None, 5),), {}, TAKES + r"too many positional arguments"),
    "given_twice": ((BOTH, {"following": FOLLOWING}), {}, TAKES + r"multiple values for argument 'following'"),
    "dict_in_tuple": (((LETTERS_GIVEN, {"following": FOLLOWING}),), {},
                      r"torch\.export can't trace the model.*; a dict with 'following' stands among the positional arguments, where it is one "
                      r"argument; give keyword arguments as sample_kwargs="),
    "inputs_are_nothing": ((None,), {}, r"the sample inputs must be a tuple of positional or a dict of keyword arguments, not None"),
    "keywords_are_a_list": ((BOTH, [1]), {}, r"sample_kwargs must be a dict of keyword arguments, not list"),
    "budget_is_negative": ((BOTH,), {"memory_budget": -1}, r"memory_budget=-1 is neither a number of bytes above 0 nor a text such as '40GiB'"),
    "budget_is_a_word": ((BOTH,), {"memory_budget": "plenty"}, r".*plenty.*"),
    "config_is_a_list": ((BOTH,), {"config": ["search.zero=3"]}, r"config=\['search\.zero=3'\] is neither a configuration file nor a dict .*"),
    "config_is_missing": ((BOTH,), {"config": "missing.toml"}, r"missing\.toml: .*"),
    "plan_is_missing": ((BOTH,), {"plan": "missing.json"}, r"missing\.json: the plan can't be read: No such file or directory"),
    "cluster_is_missing": ((BOTH,), {"cluster": "missing.toml"}, r".*missing\.toml.*"),
    "folder_is_a_file": ((BOTH,), {"folder": "/dev/null"}, r"/dev/null: File exists"),
    "outputs_unknown": ((BOTH,), {"outputs": "all"}, r"outputs='all' is not one of 'planned', 'rows', 'gathered'"),
    "scale_is_a_word": (((LETTERS_GIVEN, FOLLOWING, "loud"),), {}, r"torch\.export can't trace the model.*"),
}
