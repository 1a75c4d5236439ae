"""One run.

building.py       settings -> scenario.py, which holds for all rounds; accounting.py: what its rounds release
round_plan.py     what is known of a round before training; scheduling.py: which devices take part
round.py          the round itself; state.py: what it passes to the next; record.py: what it leaves in the trace
run_files.py      trace and checkpoint while the run goes on; checkpoint/: what a run resumes from
preflight.py      checks that need neither data nor torch
"""
