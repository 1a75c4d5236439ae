/* The link budget of one round of PFELS, WFL-P and WFL-PDP in closed form, for docs/_site/link-budget.html.

The functions have the names of those in airfl and channels that they repeat; tests/end_to_end/test_budget_in_browser.py
compares them. This is a classic script: a browser loads no modules for a page that is opened from a disk. Units are
those of the papers: the receiver noise on a real entry has standard deviation sigma_0 = 1. */
"use strict";

globalThis.linkBudget = (() => {
  const NOISE_STD = 1; // channel.noise_std
  const LARGEST_EXACT = 1e8; // airfl.privacy.gaussian.LARGEST_EXACT
  const EULER = 0.5772156649015329;
  const EPSILON = 2 ** -53;

  // ---------------------------------------------------------------- special functions

  /** e^(x^2) erfc(x) for x >= 0: the series of erf below 2, the continued fraction above. */
  function erfcx(x) {
    if (x < 2) {
      let term = x;
      let sum = x; // erf(x) = 2/sqrt(pi) e^(-x^2) sum of 2^n x^(2n+1)/(2n+1)!!
      for (let n = 1; term > EPSILON * sum; n += 1) {
        term *= (2 * x * x) / (2 * n + 1);
        sum += term;
      }
      return Math.exp(x * x) - (2 / Math.sqrt(Math.PI)) * sum;
    }
    let tail = x;
    for (let n = Math.ceil(12 + 280 / (x * x)); n > 0; n -= 1) {
      tail = x + n / (2 * tail);
    }
    return 1 / (Math.sqrt(Math.PI) * tail);
  }

  /** log Phi(x) of the standard normal distribution, accurate in both tails. */
  function logNdtr(x) {
    const scaled = Math.abs(x) / Math.SQRT2;
    if (x > 0) {
      return Math.log1p(-0.5 * erfcx(scaled) * Math.exp(-scaled * scaled));
    }
    return Math.log(0.5 * erfcx(scaled)) - scaled * scaled;
  }

  /** The exponential integral E_n(x) for n = 1 or 2 and x > 0 (Abramowitz and Stegun, 5.1.11, 5.1.14 and 5.1.22). */
  function expn(n, x) {
    if (x <= 1) {
      let sum = -EULER - Math.log(x);
      let power = 1;
      for (let k = 1; k < 40; k += 1) {
        power *= -x / k;
        sum -= power / k;
      }
      return n === 1 ? sum : Math.exp(-x) - x * sum;
    }
    const depth = Math.ceil(20 + 110 / x);
    let beyond = x + n + 2 * depth;
    for (let k = depth; k > 0; k -= 1) {
      beyond = x + n + 2 * (k - 1) - (k * (n - 1 + k)) / beyond;
    }
    return Math.exp(-x) / beyond;
  }

  // ---------------------------------------------------------------- privacy of a Gaussian release

  /** log( Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) ), the smallest delta at epsilon (Balle and Wang 2018). */
  function gaussianLogDelta(epsilon, mu) {
    const first = logNdtr(mu / 2 - epsilon / mu);
    const gap = epsilon + logNdtr(-mu / 2 - epsilon / mu) - first;
    return gap < 0 ? first + Math.log(-Math.expm1(gap)) : -Infinity;
  }

  /** The smallest epsilon >= 0 at which a release of sensitivity mu over its noise is (epsilon, delta)-private. */
  function gaussianEpsilon(delta, mu) {
    if (mu === 0 || delta >= 1) {
      return 0;
    }
    const target = Math.log(delta);
    if (mu > LARGEST_EXACT) {
      return mu * (mu / 2 + Math.sqrt(-2 * target));
    }
    const high = (mu * mu) / 2 + mu * Math.sqrt(-2 * target) + 1e-9; // delta is below its target here
    return epsilonOf((epsilon) => gaussianLogDelta(epsilon, mu), target, high);
  }

  /** The smallest epsilon in [0, high] at which the logarithm of delta, which decreases, is at most `target`. */
  function epsilonOf(logDelta, target, above) {
    if (logDelta(0) <= target) {
      return 0;
    }
    let low = 0;
    let high = above;
    for (let step = 0; step < 200 && high - low > 4 * EPSILON * high; step += 1) {
      const middle = low + (high - low) / 2;
      if (logDelta(middle) > target) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return high;
  }

  /** The same if a random mask shows the share p of a contribution's square on average: an upper bound, by the worst
      contribution, of which it shows the square v with probability p mu^2/v and else nothing (docs/privacy.md). */
  function maskedEpsilon(delta, mu, share) {
    const high = gaussianEpsilon(delta, mu);
    if (share === 1 || high === 0 || mu > LARGEST_EXACT) {
      return high;
    }
    // A chord of delta over v is steepest at v = m^2 where R(u) - R(u + m) = m/2, u = epsilon/m - m/2.
    const isBelow = (m, epsilon) => {
      const u = epsilon / m - m / 2;
      return mills(u) - mills(u + m) < m / 2;
    };
    const least = Math.sqrt(share) * mu;
    const ofEqualEntries = gaussianEpsilon(delta, least);
    if (!isBelow(least, ofEqualEntries)) {
      return ofEqualEntries;
    }
    const ofOneEntry = delta < share ? gaussianEpsilon(delta / share, mu) : 0;
    if (isBelow(mu, ofOneEntry)) {
      return ofOneEntry;
    }
    let u = 0;
    let low = least;
    let top = mu;
    for (let step = 0; step < 60 && top - low > 4 * EPSILON * top; step += 1) {
      const m = (low + top) / 2;
      for (let newton = 0; newton < 30; newton += 1) {
        const [far, difference] = [mills(u + m), mills(u) - mills(u + m)];
        const change = Math.log(difference / (m / 2)) / (u - (m * far) / difference); // R'(u) = u R(u) - 1
        u -= change;
        if (Math.abs(change) < 1e-14) break;
      }
      // delta there, p mu^2/m^2 phi(u) m/2, decreases with m.
      if (Math.exp((-u * u) / 2) * ((share * mu * mu) / m) > 2 * Math.sqrt(2 * Math.PI) * delta) {
        low = m;
      } else {
        top = m;
      }
    }
    return top * (u + top / 2);
  }

  /** The Mills ratio (1 - Phi(x))/phi(x). */
  function mills(x) {
    const tail = Math.sqrt(Math.PI / 2) * erfcx(Math.abs(x) / Math.SQRT2);
    return x < 0 ? Math.sqrt(2 * Math.PI) * Math.exp((x * x) / 2) - tail : tail;
  }

  /** log(1 + q (e^loss - 1)), a privacy loss amplified by subsampling. */
  function amplifiedLoss(loss, rate) {
    return loss + Math.log(rate + (1 - rate) * Math.exp(-loss));
  }

  /** Epsilon of one round in which a device takes part with probability q, and of which a mask shows a share. */
  function sampledGaussianEpsilon(delta, mu, rate, share = 1) {
    return amplifiedLoss(maskedEpsilon(delta / rate, mu, share), rate);
  }

  /** C_2 of theorem 3 of PFELS (eq. 21): a round at beta is claimed to be (C_2 beta, delta)-private. */
  function theorem3Factor(clipNorm, selected, devices, delta) {
    const rate = selected / devices;
    return (2 * Math.SQRT2 * clipNorm * rate * Math.sqrt(Math.log((1.25 * rate) / delta))) / NOISE_STD;
  }

  // ---------------------------------------------------------------- fading

  /** The laws of |h| with mean 1: log P(|h| > g), its inverse, and E[1/|h|^2; |h| > g]. */
  const LAWS = {
    exponential: {
      logSurvival: (gain) => -gain,
      gainAt: (logSurvival) => -logSurvival,
      inverseSquare: (gain) => expn(2, gain) / gain,
    },
    rayleigh: {
      logSurvival: (gain) => (-Math.PI / 4) * gain * gain,
      gainAt: (logSurvival) => Math.sqrt((-4 / Math.PI) * logSurvival),
      inverseSquare: (gain) => (Math.PI / 4) * expn(1, (Math.PI / 4) * gain * gain),
    },
    fixed: {
      logSurvival: (gain) => (gain < 1 ? 0 : -Infinity),
      gainAt: () => 1,
      inverseSquare: (gain) => (gain < 1 ? 1 : 0),
    },
  };

  /** The law of |h| clipped to [least, most]: both bounds then have a probability of their own. */
  function fadingOf({ law, meanGain, minGain: least, maxGain: most }) {
    const { logSurvival, gainAt, inverseSquare } = LAWS[law];
    const mean = meanGain;
    const atMost = Math.exp(logSurvival(most / mean));
    const atLeast = -Math.expm1(logSurvival(least / mean));
    const above = (gain) => inverseSquare(gain / mean) / (mean * mean);
    const within = (gain) => above(gain) - above(most) + atMost / (most * most);
    const all = law === "fixed" ? 1 / Math.min(Math.max(mean, least), most) ** 2 : within(least) + atLeast / (least * least);
    return {
      least,
      most,
      /** log P(|h| > gain). */
      logSurvival: (gain) => (gain < least ? 0 : gain >= most ? -Infinity : logSurvival(gain / mean)),
      /** log P(|h| >= gain): the atoms at the bounds, and that of a fixed gain, included. */
      logReached: (gain) => {
        if (law === "fixed") {
          return gain <= Math.min(Math.max(mean, least), most) ? 0 : -Infinity;
        }
        return gain <= least ? 0 : gain > most ? -Infinity : logSurvival(gain / mean);
      },
      /** The gain that |h| exceeds with this log probability. */
      gainAt: (logged) => Math.min(Math.max(mean * gainAt(logged), least), most),
      /** E[1/|h|^2; |h| > gain]. */
      inverseSquare: (gain) => (gain < least ? all : gain >= most ? 0 : within(gain)),
    };
  }

  // Nodes and weights of Gauss and Legendre on [-1, 1], by Newton's method.
  const NODES = (() => {
    const count = 20;
    return Array.from({ length: count }, (_, index) => {
      let node = Math.cos((Math.PI * (index + 0.75)) / (count + 0.5));
      let slope = 1;
      for (let step = 0; step < 50; step += 1) {
        let [before, value] = [1, node];
        for (let n = 2; n <= count; n += 1) {
          [before, value] = [value, ((2 * n - 1) * node * value - (n - 1) * before) / n];
        }
        slope = (count * (node * value - before)) / (node * node - 1);
        node -= value / slope;
      }
      return [node, 2 / ((1 - node * node) * slope * slope)];
    });
  })();

  /** The integral of a function over [low, high] > 0, by Gauss and Legendre in 24 pieces of equal ratio. */
  function integrate(integrand, low, high) {
    const pieces = 24;
    const width = Math.log(high / low) / pieces;
    let sum = 0;
    for (let piece = 0; piece < pieces; piece += 1) {
      const middle = Math.log(low) + (piece + 0.5) * width;
      for (const [node, weight] of NODES) {
        const place = Math.exp(middle + (node * width) / 2);
        sum += weight * integrand(place) * place;
      }
    }
    return (sum * width) / 2;
  }

  /** E[min(min_j |h_j|, bound)^2 / |h_1|^2] for r independent gains: the mean share of its energy limit that a device
  uses, at beta = a min(min_j |h_j|, bound). It is the integral from 0 to the bound of
  2 g P(|h| > g)^(r - 1) E[1/|h|^2; |h| > g]. */
  function usedShare(fading, selected, bound) {
    const { least, most, logSurvival, inverseSquare, gainAt } = fading;
    const end = Math.min(bound, most);
    if (end <= least) {
      return end * end * inverseSquare(0);
    }
    const start = least * least * inverseSquare(0);
    // Above this gain lie all of the others, or the only device, with a probability below e^-60.
    const last = Math.min(end, gainAt(-60 / Math.max(selected - 1, 1)));
    if (last <= least) {
      return start;
    }
    const integrand = (gain) => {
      const others = selected > 1 ? Math.exp((selected - 1) * logSurvival(gain)) : 1;
      return 2 * gain * others * inverseSquare(gain);
    };
    return start + integrate(integrand, least, last);
  }

  // ---------------------------------------------------------------- a round

  /** Entries sent of d: k = floor(p d), at least 1. */
  function keptEntries(ratio, dimension) {
    return Math.max(Math.floor(ratio * dimension), 1);
  }

  /** What is known of a setting without any channel: k, the energy limit P, the reach a per gain, the privacy bound. */
  function boundsOf(setting) {
    const { scheme, dimension, clipNorm, selected, devices, epsilon, delta } = setting;
    const entries = scheme === "pfels" ? keptEntries(setting.ratio, dimension) : dimension;
    const ratio = entries / dimension;
    const energyLimit = 10 ** (setting.maxSnrDb / 10) * dimension * NOISE_STD ** 2; // P_i, section 8.1
    const factor = theorem3Factor(clipNorm, selected, devices, delta);
    return {
      entries,
      ratio,
      energyLimit,
      factor,
      reachPerGain: Math.sqrt(energyLimit) / (clipNorm * Math.sqrt(ratio)), // eq. 36, 37 and 38 without |h|
      privacyBound: scheme === "wfl-p" ? Infinity : epsilon / factor, // eq. 36 and 38
    };
  }

  /** beta of the round that is exceeded with a log probability: eq. 36 at this quantile of the smallest of r gains. */
  function coefficientAt(bounds, fading, selected, logged) {
    const powerBound = bounds.reachPerGain * fading.gainAt(logged / selected);
    return { powerBound, coefficient: Math.min(powerBound, bounds.privacyBound) };
  }

  /** The figures of a round at this beta, all of them monotone in beta. */
  function roundAt(setting, bounds, coefficient) {
    const { scheme, clipNorm, selected, devices, delta, dimension } = setting;
    const mu = (2 * coefficient * clipNorm) / NOISE_STD; // replace-one: a device moves the sum by at most 2 beta C
    const noiseStd = NOISE_STD / (selected * coefficient);
    return {
      coefficient,
      noiseStd,
      // ||mean||^2 = p C^2 if all updates are equal, over k noiseStd^2; p/k = 1/d.
      snrEqual: clipNorm ** 2 / (dimension * noiseStd ** 2),
      snrOrthogonal: clipNorm ** 2 / (dimension * noiseStd ** 2 * selected),
      noiseMultiplier: NOISE_STD / (coefficient * clipNorm),
      epsilonClaimed: scheme === "wfl-p" ? NaN : bounds.factor * coefficient, // eq. 20
      epsilonRound: sampledGaussianEpsilon(delta, mu, selected / devices, bounds.ratio),
      epsilonKnown: maskedEpsilon(delta, mu, bounds.ratio),
      epsilonPoisson: sampledGaussianEpsilon(delta, mu / 2, selected / devices, bounds.ratio),
    };
  }

  /** The link budget of a setting: quantiles of a round over its fading, and the costs of a run. */
  function budget(setting) {
    const { selected, rounds } = setting;
    const bounds = boundsOf(setting);
    const fading = fadingOf(setting);
    const at = (logged) => {
      const { powerBound, coefficient } = coefficientAt(bounds, fading, selected, logged);
      return { powerBound, ...roundAt(setting, bounds, coefficient) };
    };
    const elements = setting.packing === "iq" ? Math.ceil(bounds.entries / 2) : bounds.entries;
    const symbols = Math.ceil(elements / setting.subcarriers);
    const airTimeS = (symbols * 15) / (14 * setting.spacingHz);
    const share = usedShare(fading, selected, bounds.privacyBound / bounds.reachPerGain);
    const energy = selected * bounds.energyLimit * share;
    return {
      ...bounds,
      elements,
      symbols,
      airTimeS,
      energy,
      usedShare: share,
      runEnergy: energy * rounds,
      runElements: elements * rounds,
      runAirTimeS: airTimeS * rounds,
      runEntries: bounds.entries * rounds,
      privacyBinds: Math.exp(selected * fading.logReached(bounds.privacyBound / bounds.reachPerGain)),
      low: at(Math.log(0.9)),
      median: at(Math.log(0.5)),
      high: at(Math.log(0.1)),
      // The largest beta of T rounds is below this one in half of all runs.
      worst: at(Math.log(-Math.expm1(-Math.LN2 / rounds))),
    };
  }

  return {
    LAWS,
    amplifiedLoss,
    boundsOf,
    budget,
    erfcx,
    expn,
    fadingOf,
    gaussianEpsilon,
    gaussianLogDelta,
    keptEntries,
    logNdtr,
    maskedEpsilon,
    sampledGaussianEpsilon,
    theorem3Factor,
    usedShare,
  };
})();
