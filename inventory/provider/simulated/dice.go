package simulated

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"patchbay/inventory/provider"
)

// newRandom returns a source of random numbers that depend only on the parameters; draw is the number of earlier
// operations on the component.
func newRandom(seed uint64, component string, draw int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(component))
	return rand.New(rand.NewPCG(seed, h.Sum64()+uint64(draw)))
}

// chooseBehaviour decides how an operation proceeds; the error kind is set only for a refusal. If
// the settings configure no behaviour of the component for this operation, chance decides. Chance never affects a
// removal.
func (s *settings) chooseBehaviour(h history, op operation, r *rand.Rand) (behaviour, provider.Kind) {
	drawn := r.Float64() // in any case, so that later random numbers do not depend on the configuration
	if b, kind := s.configuredBehaviour(h, op); b != normal {
		return b, kind
	}
	if op == opRemove {
		return normal, ""
	}
	for _, b := range behaviours {
		if drawn -= s.Chance[b]; drawn < 0 {
			return b, ""
		}
	}
	return normal, ""
}

// configuredBehaviour returns the behaviour that the settings configure for the component and operation, or normal.
func (s *settings) configuredBehaviour(h history, op operation) (behaviour, provider.Kind) {
	for _, c := range s.Components {
		if c.Name == h.Component && c.isMisbehaving(op, h.Bad) {
			return c.Behaviour, c.Kind
		}
	}
	return normal, ""
}

// duration returns how long the operations take together, with the jitter and the behaviour b.
func (s *settings) duration(r *rand.Rand, b behaviour, ops ...operation) time.Duration {
	var d float64
	for _, op := range ops {
		d += float64(s.Timing[op])
	}
	d *= 1 + s.Jitter*(2*r.Float64()-1)
	if b == slow {
		d *= s.SlowFactor
	}
	return time.Duration(d)
}
