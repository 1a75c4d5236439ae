"""Privacy: what papers claim, what holds for one round, what holds for a run.

`airfl.privacy("demo")` gives all of these of an experiment: it calls `airfl.calculator.privacy_of`.

events.py         what was released, as data; here is said what a noise multiplier is
release.py        what a round of a scheme gives away, as events; record.py where records are protected
statement.py      whose data, against whom, hidden by what
accountants/      events -> epsilon; gaussian.py and binomial.py hold the formulas of one release
bounds.py         epsilon of any events, from above and below; kept by figures_on_disk.py
ledger.py         the rounds of a run, one after another
calibration.py    the inverse questions: how much noise, how many rounds
pfels.py, fed_smp.py, fed_spa.py, soteriafl.py    what the papers claim, by their own theorems
"""

from airfl.callable import calls

calls(__name__, "airfl.calculator:privacy_of")
