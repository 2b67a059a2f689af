package fabric

import (
	"errors"
	"testing"
	"time"
)

// What a request asks of a link is made or refused in words, never more.
func FuzzDecide(f *testing.F) {
	f.Add(uint8(3), "lan", int64(1000), int64(time.Millisecond), 0.1, uint16(0x0201), uint16(0))
	f.Add(uint8(1), "lan", int64(-1), int64(-1), -0.1, uint16(1), uint16(1))
	f.Add(uint8(9), "a b", int64(1)<<62, int64(1)<<62, 1e300, uint16(0xffff), uint16(0xff00))
	f.Fuzz(func(t *testing.T, ends uint8, name string, rate, delay int64, loss float64, from, to uint16) {
		l := lan("s1", int(ends%12))
		l.Name = name
		if ends&16 != 0 {
			l.Shared = name
		}
		for i := range 2 { // one byte of from and to is a shape
			s := Shape{Rate: rate >> i, Delay: time.Duration(delay >> i), Loss: loss / float64(1+i)}
			for j, e := range l.Ends {
				if from>>(8*i)>>j&1 != 0 && j < 8 {
					s.From = append(s.From, e.ID)
				}
				if to>>(8*i)>>j&1 != 0 && j < 8 {
					s.To = append(s.To, e.ID)
				}
			}
			l.Shapes = append(l.Shapes, s)
		}
		for _, can := range []Abilities{everything, noNetem, onlyTBF, nothing} {
			for _, forced := range []string{Auto, Netem, Relay} {
				h := &Host{o: Options{Emulator: forced}, able: can}
				err := h.Check(l)
				var u *UnsupportedError
				if errors.As(err, &u) && (u.Property == "" || u.Reason == "") {
					t.Errorf("refused without words: %+v", u)
				}
				if err != nil {
					continue
				}
				p, err := decide(l, can, forced)
				if err != nil || p.emulator == "" {
					t.Fatalf("what Check accepts is not planned: %v", err)
				}
				for _, path := range p.paths {
					if path.Rate < 0 || path.Delay < 0 || !(path.Loss >= 0 && path.Loss <= 1) {
						t.Errorf("path %+v", path)
					}
				}
			}
		}
	})
}
