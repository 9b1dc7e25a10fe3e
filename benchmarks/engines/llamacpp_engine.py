# SPDX-License-Identifier: Apache-2.0
"""llama.cpp on a GGUF file, by its C functions with its default options. Arguments: see workload.py.

Only llama_decode is timed, as in llama-bench; choosing the token is left out. The default cache is in half
precision, which reads less and is left as it is.
"""

import ctypes
import importlib.util
import sys
import time
import types

from workload import main

# The bindings alone: the package's __init__ brings in half a dozen libraries that would count as its memory.
package = types.ModuleType("llama_cpp")
package.__path__ = importlib.util.find_spec("llama_cpp").submodule_search_locations
sys.modules["llama_cpp"] = package
from llama_cpp import llama_cpp as api  # noqa: E402


@api.llama_log_callback
def no_log(level, text, data):
    pass


class Engine:
    def __init__(self, model, threads):
        self.threads = threads
        api.llama_log_set(no_log, None)
        api.llama_backend_init()
        self.model = api.llama_model_load_from_file(model.encode(), api.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {model}")
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.greedy = api.llama_sampler_init_greedy()
        self.kept, self.sizes = None, None

    def context(self, prompts, n):
        """An empty context for these sizes; the same one again while they stay, with its memory warm."""
        tokens, rows = len(prompts) * (len(prompts[0]) + n), len(prompts)
        if self.sizes != (tokens, rows):
            params = api.llama_context_default_params()
            params.n_ctx, params.n_seq_max = tokens, rows
            params.n_batch = max(params.n_batch, tokens)
            params.n_threads = params.n_threads_batch = self.threads
            self.kept, self.sizes = api.llama_init_from_model(self.model, params), (tokens, rows)
        api.llama_memory_clear(api.llama_get_memory(self.kept), False)
        return self.kept

    def decode(self, context, columns, position):
        """Reads columns[row] of every row from `position` on; seconds, and a token chosen for each row."""
        length = len(columns[0])
        batch = api.llama_batch_init(len(columns) * length, 0, 1)
        last = []
        for row, column in enumerate(columns):
            for offset, token in enumerate(column):
                i = batch.n_tokens
                batch.token[i], batch.pos[i] = token, position + offset
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, row
                batch.logits[i] = offset == length - 1
                batch.n_tokens = i + 1
            last.append(batch.n_tokens - 1)
        begin = time.perf_counter()
        status = api.llama_decode(context, batch)
        api.llama_synchronize(context)
        seconds = time.perf_counter() - begin
        api.llama_batch_free(batch)
        if status != 0:
            raise SystemExit(f"llama_decode: {status}")
        return seconds, last

    def generate(self, prompts, n):
        context = self.context(prompts, n)
        columns, times, position = prompts, [], 0
        ids = [[] for _ in prompts]
        for _ in range(n):
            seconds, last = self.decode(context, columns, position)
            position += len(columns[0])
            columns = [[api.llama_sampler_sample(self.greedy, context, i)] for i in last]
            times.append(seconds)
            ids = [[*row, *column] for row, column in zip(ids, columns, strict=True)]
        return times[0], times[1:], ids

    def logits(self, prompt):
        context = self.context([prompt], 0)
        _, (last,) = self.decode(context, [prompt], 0)
        found = api.llama_get_logits_ith(context, last)
        return ctypes.cast(found, ctypes.POINTER(ctypes.c_float * self.vocabulary)).contents[:]


main(Engine)
