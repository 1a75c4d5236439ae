"""Privacy: the papers' claims, the exact epsilon of one round, and the epsilon of a whole run.

`airfl.privacy("demo")` returns all of these for an experiment. It calls `airfl.analysis.calculator.privacy_of`.

events.py         what is released, as data; defines the noise multiplier
record.py         the record-level releases of one participation
disclosure.py     what beta reveals about the selected devices
statement.py      whose data is protected, from whom, and by which sampling
accountants/      events -> epsilon; gaussian.py and binomial.py hold the formulas of a single release
bounds.py         upper and lower bounds on epsilon of any event, cached by figures_on_disk.py
ledger.py         accounting of the rounds of a run, one after another
verdict.py        claimed against accounted epsilon, in a sentence
calibration.py    the inverse problems: how much noise, how many rounds
pfels.py, fed_smp.py, fed_spa.py, soteriafl.py    the papers' claims, by their own theorems
"""

from airfl.runtime.callable import calls

calls(__name__, "airfl.analysis.calculator:privacy_of")
