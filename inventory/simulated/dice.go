package simulated

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"patchbay/inventory/provider"
)

// dice are the random numbers of one operation: the same for the same seed,
// component and number of the operation, whatever happens elsewhere.
func dice(seed uint64, component string, draw int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(component))
	return rand.New(rand.NewPCG(seed, h.Sum64()+uint64(draw)))
}

// behaviour is how the operation goes, and of what kind it is if it is a refusal:
// as set up for the component, or as the dice fall.
func (s *settings) behaviour(h history, op operation, r *rand.Rand) (behaviour, provider.Kind) {
	fall := r.Float64() // always drawn, so that times stay the same
	if b, kind := s.setUp(h, op); b != well {
		return b, kind
	}
	if op == opRemove {
		return well, ""
	}
	for _, b := range behaviours {
		if fall -= s.Chance[b]; fall < 0 {
			return b, ""
		}
	}
	return well, ""
}

// setUp is how the operation goes as it was set up for the component.
func (s *settings) setUp(h history, op operation) (behaviour, provider.Kind) {
	for _, c := range s.Components {
		if c.Name == h.Component && c.misbehaves(op, h.Bad) {
			return c.Behaviour, c.Kind
		}
	}
	return well, ""
}

// lasts is how long the operations take together.
func (s *settings) lasts(r *rand.Rand, b behaviour, ops ...operation) time.Duration {
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
