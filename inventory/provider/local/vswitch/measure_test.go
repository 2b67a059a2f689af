package vswitch

import (
	"testing"
	"time"

	"patchbay/inventory/provider/local/netspace"
)

func TestMeasureCountsFramesThatGetThrough(t *testing.T) {
	needTAPs(t)
	space, err := netspace.New()
	must(t, err)
	defer space.Close()
	var frames float64
	must(t, netspace.Inside(space, func() (err error) {
		frames, err = Measure(50 * time.Millisecond)
		return err
	}))
	t.Logf("%.0f frames a second", frames)
	if frames == 0 {
		t.Error("nothing gets through")
	}
}
