package simulated

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"patchbay/inventory/provider"
)

// newRandom returns the random numbers of one operation: always the same for the same
// seed, component and number of the operation.
func newRandom(seed uint64, component string, draw int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(component))
	return rand.New(rand.NewPCG(seed, h.Sum64()+uint64(draw)))
}

// behaviour returns how the operation goes, and the kind of a refusal: as configured for
// the component, or by chance.
func (s *settings) behaviour(h history, op operation, r *rand.Rand) (behaviour, provider.Kind) {
	fall := r.Float64() // always drawn, so that times stay the same
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

// configuredBehaviour returns how the operation goes by the component's configuration.
func (s *settings) configuredBehaviour(h history, op operation) (behaviour, provider.Kind) {
	for _, c := range s.Components {
		if c.Name == h.Component && c.isMisbehaving(op, h.Bad) {
			return c.Behaviour, c.Kind
		}
	}
	return normal, ""
}

// duration returns the time of the operations together.
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
