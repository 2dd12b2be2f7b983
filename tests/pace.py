"""How fast this machine is now: limits of processor time are multiples of it.

A shared or loaded processor gives each second of it less work.
"""

import time


def pace() -> float:
    """Return the processor seconds that a fixed piece of work takes now: the median of five."""
    return sorted(map(_work, range(5)))[2]


def _work(seed: int) -> float:
    begun = time.process_time()
    words = {str(number * (seed + 3)): [number] for number in range(60_000)}
    sum(len(word) * words[word][0] for word in sorted(words))
    return time.process_time() - begun
