package simulated

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"patchbay/inventory/provider"
)

// newRandom returns numbers that depend only on the parameters; draw is the number of earlier
// operations on the component.
func newRandom(seed uint64, component string, draw int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(component))
	return rand.New(rand.NewPCG(seed, h.Sum64()+uint64(draw)))
}

// behaviour decides how an operation proceeds; the error kind is set only for a refusal. If
// the settings configure nothing for the component, chance decides. Chance never affects a
// removal.
func (s *settings) behaviour(h history, op operation, r *rand.Rand) (behaviour, provider.Kind) {
	fall := r.Float64() // drawn in any case, so that later random numbers do not depend on the configuration
	if b, kind := s.configuredBehaviour(h, op); b != normal {
		return b, kind
	}
	if op == opRemove {
		return normal, ""
	}
	for _, b := range behaviours {
		if fall -= s.Chance[b]; fall < 0 {
			return b, ""
		}
	}
	return normal, ""
}

func (s *settings) configuredBehaviour(h history, op operation) (behaviour, provider.Kind) {
	for _, c := range s.Components {
		if c.Name == h.Component && c.isMisbehaving(op, h.Bad) {
			return c.Behaviour, c.Kind
		}
	}
	return normal, ""
}

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
