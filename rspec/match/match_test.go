package match

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// constraint reads "cpu.count >= 4".
func constraint(text string) Constraint {
	f := strings.SplitN(strings.TrimSpace(text), " ", 3)
	return Constraint{f[0], Op(f[1]), f[2]}
}

// requirements reads constraints, and preferences "WEIGHT: …", separated by lines or
// semicolons.
func requirements(text string) (*Requirements, error) {
	var require []Constraint
	var prefer []Preference
	for line := range strings.SplitSeq(strings.ReplaceAll(text, ";", "\n"), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		weight, group, ok := strings.Cut(line, ":")
		if !ok {
			require = append(require, constraint(line))
			continue
		}
		p := Preference{}
		p.Weight, _ = strconv.Atoi(strings.TrimSpace(weight))
		for c := range strings.SplitSeq(group, " and ") {
			p.Constraints = append(p.Constraints, constraint(c))
		}
		prefer = append(prefer, p)
	}
	return New(require, prefer)
}

// capabilities reads "cpu.count 8; location.country BE, NL".
func capabilities(t *testing.T, text string) Capabilities {
	t.Helper()
	all := map[string]Capability{}
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		feature, values, _ := strings.Cut(strings.TrimSpace(part), " ")
		c, err := ParseCapability(feature, strings.Split(values, ", ")...)
		if err != nil {
			t.Fatal(err)
		}
		all[feature] = c
	}
	return func(feature string) (Capability, bool) { c, ok := all[feature]; return c, ok }
}

// text formats a grant as "cpu.count=4 score 2".
func (g Grant) text() string {
	var parts []string
	for _, v := range g.Values {
		parts = append(parts, v.Feature+"="+v.Value)
	}
	if g.Score > 0 {
		parts = append(parts, "score "+strconv.Itoa(g.Score))
	}
	return strings.Join(parts, " ")
}

func TestMatch(t *testing.T) {
	for _, row := range []struct{ name, require, offers, want string }{
		{"no constraint", "", "cpu.count 8", ""},
		{"a point", "cpu.count = 8", "cpu.count 8", "cpu.count=8"},
		{"a point is no range", "cpu.count = 1", "cpu.count 8", "no"},
		{"a machine has at least", "cpu.count >= 4", "cpu.count 8", "cpu.count=8"},
		{"a machine has too few", "cpu.count >= 16", "cpu.count 8", "no"},
		{"the lowest common number", "cpu.count >= 4", "cpu.count 1..16", "cpu.count=4"},
		{"the lowest number of the range", "cpu.count <= 4", "cpu.count 2..16", "cpu.count=2"},
		{"below the range", "cpu.count <= 1", "cpu.count 2..16", "no"},
		{"above the range", "cpu.count >= 17", "cpu.count 2..16", "no"},
		{"the upper end", "cpu.count >= 16", "cpu.count 2..16", "cpu.count=16"},
		{"strictly more", "cpu.count > 4", "cpu.count 1..16", "cpu.count=5"},
		{"strictly more than the most", "cpu.count > 16", "cpu.count 1..16", "no"},
		{"strictly less", "cpu.count < 2", "cpu.count 1..16", "cpu.count=1"},
		{"strictly less than the least", "cpu.count < 1", "cpu.count 1..16", "no"},
		{"zero", "gpu.count = 0", "gpu.count 0..2", "gpu.count=0"},
		{"none of what is wanted", "gpu.count >= 1", "gpu.count 0", "no"},
		{"an interval", "cpu.count >= 3; cpu.count <= 5", "cpu.count 1..16", "cpu.count=3"},
		{"an interval beside the range", "cpu.count >= 3; cpu.count <= 5", "cpu.count 6..16", "no"},
		{"the strongest of equal bounds", "cpu.count >= 1; cpu.count >= 5; cpu.count >= 0", "cpu.count 1..16", "cpu.count=5"},
		{"an equal and a bound", "cpu.count = 1; cpu.count >= 0", "cpu.count 1..16", "cpu.count=1"},
		{"two bounds make a point", "cpu.count >= 5; cpu.count <= 5", "cpu.count 1..16", "cpu.count=5"},
		{"strict and not strict", "cpu.count >= 5; cpu.count > 5", "cpu.count 1..16", "cpu.count=6"},
		{"a fraction as lower bound", "cpu.count >= 1.5", "cpu.count 1..16", "cpu.count=2"},
		{"a fraction as upper bound", "cpu.count <= 1.5; cpu.count >= 1", "cpu.count 1..16", "cpu.count=1"},
		{"a fraction as strict bound", "cpu.count > 1.5", "cpu.count 1..16", "cpu.count=2"},
		{"leading zeros", "cpu.count = 08", "cpu.count 8", "cpu.count=8"},

		{"sizes in other units", "memory.size >= 1024M", "memory.size 1G", "memory.size=1G"},
		{"all units are 1024-based", "memory.size = 512MB", "memory.size 536870912", "memory.size=512M"},
		{"KiB and k", "memory.size = 4KiB", "memory.size 4k", "memory.size=4K"},
		{"a blank before the unit", "memory.size >= 2 GB", "memory.size 1G..64G", "memory.size=2G"},
		{"a fraction of a unit", "memory.size >= 1.5G", "memory.size 1G..64G", "memory.size=1536M"},
		{"bytes", "memory.size > 1G", "memory.size 1G..64G", "memory.size=1073741825"},
		{"terabytes", "disk.size >= 1T", "disk.size 0..2T", "disk.size=1T"},
		{"a range from zero needs no unit there", "disk.size <= 1T", "disk.size 0..2T", "disk.size=0"},

		{"a version", "os.version >= 12.04", "os.version 22.04", "os.version=22.04"},
		{"a lower version", "os.version >= 12.04", "os.version 10.04", "no"},
		{"versions are compared by number", "os.version > 9", "os.version 10", "os.version=10"},
		{"more numbers are later", "os.version > 12.04", "os.version 12.04.1", "os.version=12.04.1"},
		{"missing numbers are 0", "os.version = 12", "os.version 12.0", "os.version=12.0"},
		{"the highest version", "os.version < 22.04", "os.version 12.04, 20.04, 22.04", "os.version=20.04"},
		{"versions of software", "software.octave >= 8.10", "software.octave 8.9, 8.10", "software.octave=8.10"},
		{"an interval of versions", "os.version > 12; os.version < 13", "os.version 12.5", "os.version=12.5"},
		{"long numbers", "os.version > 99999999999999999998", "os.version 99999999999999999999", "os.version=99999999999999999999"},

		{"a text", "cpu.arch = x86_64", "cpu.arch x86_64", "cpu.arch=x86_64"},
		{"another text", "cpu.arch = arm64", "cpu.arch x86_64", "no"},
		{"one of a list", "cpu.arch = i686", "cpu.arch x86_64, i686", "cpu.arch=i686"},
		{"texts without regard to case", "location.country = be", "location.country BE", "location.country=BE"},
		{"contains", "application contains gcc", "application gcc, make", "application=gcc"},
		{"contains both", "application contains gcc; application contains make", "application gcc, make", "application=make"},
		{"contains what is missing", "application contains gdb", "application gcc, make", "no"},
		{"contains and equal", "application contains gcc; application = make", "application gcc, make", "application=make"},
		{"a number among texts", "label = 5", "label sensor, 5", "no"},
		{"contains a number", "label contains 5", "label sensor, 5", "label=5"},

		{"a real number", "price <= 0.5", "price 0.25", "price=0.25"},
		{"too dear", "price < 0.25", "price 0.25", "no"},
		{"performance", "cpu.performance >= 10 ECU", "cpu.performance 20 ECU", "cpu.performance=20 ECU"},
		{"units of performance are not compared", "cpu.performance >= 10 ECU", "cpu.performance 20 GCEU", "no"},

		{"an unknown feature", "camera.count >= 1", "camera.count 0..4", "camera.count=1"},
		{"an unknown size", "ssd >= 1G", "ssd 0..4G", "ssd=1G"},
		{"a missing feature", "camera.count >= 1", "cpu.count 8", "no"},
		{"a text where a number is asked", "camera >= 1", "camera yes", "no"},
		{"several features", "cpu.count >= 4; memory.size >= 1G; location.country = BE", "cpu.count 1..8; memory.size 1G..4G; location.country BE", "cpu.count=4 memory.size=1G location.country=BE"},
		{"one of several fails", "cpu.count >= 4; memory.size >= 8G", "cpu.count 1..8; memory.size 1G..4G", "no"},

		{"a preference", "cpu.count >= 2; 10: location.country = BE", "cpu.count 4; location.country BE", "cpu.count=4 location.country=BE score 10"},
		{"a preference without effect", "cpu.count >= 2; 10: location.country = BE", "cpu.count 4; location.country NL", "cpu.count=4"},
		{"a preference raises the grant", "cpu.count >= 2; 10: cpu.count >= 4", "cpu.count 1..8", "cpu.count=4 score 10"},
		{"R17: weights add up, and what contradicts is ignored",
			"os.name = linux; os.flavour = ubuntu; 100: cpu.arch = x86_64 and cpu.count >= 2 and memory.size >= 1G; 101: os.flavour = ubuntu and os.version = 12.04; 50: os.name = windows",
			"os.name linux; os.flavour ubuntu; os.version 12.04; cpu.arch x86_64; cpu.count 1..8; memory.size 512M..8G",
			"os.name=linux os.flavour=ubuntu os.version=12.04 cpu.arch=x86_64 cpu.count=2 memory.size=1G score 201"},
		{"the highest weight first", "1: cpu.count = 2; 2: cpu.count = 3", "cpu.count 1..8", "cpu.count=3 score 2"},
		{"of equal weights the first", "5: cpu.count = 2; 5: cpu.count = 3", "cpu.count 1..8", "cpu.count=2 score 5"},
		{"a group applies as a whole", "5: cpu.count = 2 and gpu.count = 1", "cpu.count 1..8; gpu.count 0", ""},

		{"contradiction", "cpu.count >= 1; cpu.count <= 0", "", "error: no value satisfies both cpu.count >= 1 and cpu.count <= 0"},
		{"two numbers", "cpu.count = 1; cpu.count = 2", "", "error: no value satisfies both cpu.count = 1 and cpu.count = 2"},
		{"an empty strict interval", "cpu.count > 1; cpu.count < 2", "", "error: no value satisfies both cpu.count > 1 and cpu.count < 2"},
		{"a strict interval of real numbers", "price > 1; price < 1.5", "price 1.25", "price=1.25"},
		{"an empty strict interval of real numbers", "price > 1; price <= 1", "", "error: no value satisfies both price > 1 and price <= 1"},
		{"less than nothing", "cpu.count < 0", "", "error: no value satisfies cpu.count < 0"},
		{"half a core", "cpu.count = 1.5", "", "error: no value satisfies cpu.count = 1.5"},
		{"two texts", "cpu.arch = i686; cpu.arch = x86_64", "", "error: no value satisfies both cpu.arch = i686 and cpu.arch = x86_64"},
		{"two units", "cpu.performance > 1 ECU; cpu.performance > 1 GCEU", "", "error: no value satisfies both cpu.performance > 1 ECU and cpu.performance > 1 GCEU"},
		{"a contradiction in a preference", "5: cpu.count = 1 and cpu.count = 2", "", "error: no value satisfies both cpu.count = 1 and cpu.count = 2"},
		{"a number and a text", "x = 1; x = one", "", "error: no value satisfies both x = 1 and x = one"},
		{"contains and a number", "x contains one; x >= 1", "", "error: no value satisfies both x contains one and x >= 1"},
		{"not a number", "cpu.count >= many", "", `error: cpu.count: "many" is not a number`},
		{"a negative number", "cpu.count >= -1", "", `error: cpu.count: "-1" is not a number`},
		{"a number with a unit", "cpu.count >= 1G", "", `error: cpu.count: "1G" is not a number`},
		{"an unknown unit", "memory.size >= 1X", "", `error: memory.size: "1X" has no unit of size; use B, K, M, G or T`},
		{"too large", "memory.size >= 99999999T", "", `error: memory.size: "99999999T" is too large`},
		{"not a version", "os.version >= new", "", `error: os.version: "new" is not a version: numbers separated by dots`},
		{"the order of texts", "cpu.arch >= x86_64", "", `error: cpu.arch: "x86_64" is a text, for which only = and contains are possible`},
		{"an unknown comparison", "cpu.count => 2", "", `error: cpu.count: "=>" is not a comparison; use =, <, <=, >, >= or contains`},
		{"a name with other characters", "cpu/count >= 2", "", `error: "cpu/count" is not the name of a feature, such as cpu.count`},
		{"a long name", strings.Repeat("x", 65) + " >= 2", "", "error: the feature \"xxxxxxxxxxxxxxxxxxxx\"… has more than 64 bytes"},
		{"a long value", "x = " + strings.Repeat("x", 257), "", "error: x: the value has more than 256 bytes"},
		{"no weight", "0: cpu.count = 1", "", "error: the weight 0 of a preference is not between 1 and 1000000"},
		{"too many", strings.Repeat("cpu.count >= 1;", 65), "", "error: 65 constraints are too many; a node has at most 64"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, err := requirements(row.require)
			got := "no"
			if err != nil {
				got = "error: " + err.Error()
			} else if g, ok := r.Match(capabilities(t, row.offers)); ok {
				got = g.text()
			}
			if got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestParseCapability(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"cpu.count 8", "8"}, {"cpu.count 1..8", "1..8"}, {"memory.size 1024M..64G", "1G..64G"}, {"memory.size 0..64G", "0..64G"},
		{"os.version 12.04, 22.04", "12.04, 22.04"}, {"price 0.5", "0.5"}, {"location.country BE", "BE"}, {"cpu.performance 20 ecu", "20 ECU"},
		{"cpu.count 8..1", "error: cpu.count: 8 is above 1"},
		{"cpu.count 1, 2", "error: cpu.count has 2 values; give one number, or a range such as 0..2"},
		{"cpu.count 1.5", "error: cpu.count: 1.5 is not a whole number"},
		{"memory.size 1..64G", "error: memory.size: 1..64G has a unit at one end only"},
		{"price 1, 2", "error: price has 2 values; give one number"},
		{"price 1..2", `error: price: "1..2" is not a number`},
		{"location.country ", "error: location.country: a value has 1 to 256 bytes"},
		{"a/b 1", `error: "a/b" is not the name of a feature, such as cpu.count`},
	} {
		feature, values, _ := strings.Cut(row.text, " ")
		c, err := ParseCapability(feature, strings.Split(values, ", ")...)
		got := c.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.text, got, row.want)
		}
	}
}

func TestParseItems(t *testing.T) {
	many := make([]string, MaxItems+1)
	for i := range many {
		many[i] = fmt.Sprintf("f%02d=1", i)
	}
	for _, row := range []struct {
		rule  string
		items []string
		want  string // the capabilities
		used  string
		err   string // "" if all items are right
	}{
		{"values and ranges", []string{"memory.size=1G..64G", "cpu.count=8", "cpu.arch=x86=64"}, "map[cpu.arch:x86=64 cpu.count:8 memory.size:1G..64G]", "cpu.arch=x86=64 cpu.count=8 memory.size=1G..64G", ""},
		{"an item for each value", []string{"radio=lora", "cpu.count=8", "radio=ble", "radio=ble"}, "map[cpu.count:8 radio:ble, lora]", "cpu.count=8 radio=ble radio=lora", ""},
		{"none", nil, "map[]", "", ""},
		{"no value", []string{"cpu.count", "b=1"}, "map[b:1]", "b=1", `"cpu.count" is not feature=value or feature=min..max`},
		{"a second number", []string{"cpu.count=8", "cpu.count=9"}, "map[cpu.count:8]", "cpu.count=8", "cpu.count has 2 values"},
		{"no number", []string{"cpu.count=many"}, "map[]", "", `cpu.count: "many" is not a number`},
		{"name of a feature", []string{"cpu count=8", "=8"}, "map[]", "", `"" is not the name of a feature`},
		{"a long value", []string{"a=" + strings.Repeat("0", MaxValue+1)}, "map[]", "", "has control characters, or a value of more than 256 bytes"},
		{"a control character", []string{"a=x\ny"}, "map[]", "", "has control characters"},
		{"too many", many, "", strings.Join(many[:MaxItems], " "), "there are more than 64 items"},
	} {
		all, used, err := ParseItems(row.items)
		if got := fmt.Sprint(all); row.want != "" && got != row.want || strings.Join(used, " ") != row.used {
			t.Errorf("%s: %s of %q; want %s of %q", row.rule, got, used, row.want, row.used)
		}
		if (err != nil) != (row.err != "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %v, want %q", row.rule, err, row.err)
		}
	}
}

// TestExplain proves that an explanation names the constraint that removed the last
// candidate, how many each constraint removed, and what would have been nearest.
func TestExplain(t *testing.T) {
	for _, row := range []struct {
		require string
		offers  []string // with a number of candidates each, "8 cpu.count 4"
		want    string
	}{
		{"cpu.count >= 4; gpu.count >= 1", []string{"8 cpu.count 2; gpu.count 1", "4 cpu.count 8; gpu.count 0"},
			"of 12 candidates, cpu.count >= 4 removes 8, gpu.count >= 1 removes 4; the nearest is 0"},
		{"cpu.count >= 64", []string{"1 cpu.count 8", "2 cpu.count 1..32", "3 cpu.count 16"}, "of 6 candidates, cpu.count >= 64 removes 6; the nearest is 1..32"},
		{"camera.count >= 1", []string{"5 cpu.count 8"}, "of 5 candidates, camera.count >= 1 removes 5; none of these says what its camera.count is"},
		{"location.country = BE", []string{"1 location.country NL", "1 location.country DE", "1 location.country NL"}, "of 3 candidates, location.country = BE removes 3; the nearest is NL or DE"},
		{"cpu.count >= 2", nil, "there is no candidate"},
		{"cpu.count >= 2; 9: gpu.count >= 1", []string{"1 cpu.count 8"}, ""},
	} {
		r, err := requirements(row.require)
		if err != nil {
			t.Fatal(err)
		}
		var list []Candidates
		for _, o := range row.offers {
			number, text, _ := strings.Cut(o, " ")
			n, _ := strconv.Atoi(number)
			list = append(list, Candidates{capabilities(t, text), n})
		}
		got := ""
		if e := r.Explain(list); e != nil {
			got = e.Error()
		}
		if got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.require, got, row.want)
		}
	}
}

// TestMatchAgainstSearch compares Match with a search through all values, on random small
// cases.
func TestMatchAgainstSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	features := []string{"a", "b", "c"}
	ops := []Op{Equal, Less, AtMost, Greater, AtLeast}
	some := func(most int) (list []Constraint) {
		for range random.IntN(most + 1) {
			list = append(list, Constraint{features[random.IntN(3)], ops[random.IntN(5)], strconv.Itoa(random.IntN(6))})
		}
		return list
	}
	holds := func(c Constraint, v int) bool {
		n, _ := strconv.Atoi(c.Value)
		return map[Op]bool{Equal: v == n, Less: v < n, AtMost: v <= n, Greater: v > n, AtLeast: v >= n}[c.Op]
	}
	matched, refused := 0, 0
	for range 10_000 {
		low, high := map[string]int{}, map[string]int{}
		for _, f := range features {
			low[f] = random.IntN(4)
			high[f] = low[f] + random.IntN(4)
		}
		// lowest returns the lowest value of each constrained feature.
		lowest := func(list []Constraint) (map[string]int, bool) {
			values := map[string]int{}
			for _, c := range list {
				found := false
				for v := high[c.Feature]; v >= low[c.Feature]; v-- {
					if !slices.ContainsFunc(list, func(x Constraint) bool { return x.Feature == c.Feature && !holds(x, v) }) {
						values[c.Feature], found = v, true
					}
				}
				if !found {
					return nil, false
				}
			}
			return values, true
		}
		require := some(3)
		var prefer []Preference
		for i := range random.IntN(4) {
			if list := some(2); len(list) > 0 {
				prefer = append(prefer, Preference{100 - i, list}) // distinct weights, highest first
			}
		}
		want, wantOK := lowest(require)
		score, all := 0, require
		for _, p := range prefer {
			if more, ok := lowest(slices.Concat(all, p.Constraints)); wantOK && ok {
				want, all, score = more, slices.Concat(all, p.Constraints), score+p.Weight
			}
		}
		random.Shuffle(len(prefer), func(i, j int) { prefer[i], prefer[j] = prefer[j], prefer[i] })

		r, err := New(require, prefer)
		if err != nil {
			// A contradiction holds for all capabilities: no value up to 10 satisfies it.
			for _, f := range features {
				low[f], high[f] = 0, 10
			}
			_, ok := lowest(require)
			for _, p := range prefer {
				_, also := lowest(p.Constraints)
				ok = ok && also
			}
			if ok {
				t.Fatalf("%v %v: %v", require, prefer, err)
			}
			continue
		}
		g, ok := r.Match(func(f string) (Capability, bool) {
			return Capability{Kind: Count, Min: float64(low[f]), Max: float64(high[f])}, true
		})
		got := map[string]int{}
		for _, v := range g.Values {
			got[v.Feature] = int(v.Number)
		}
		if ok != wantOK || ok && (fmt.Sprint(got) != fmt.Sprint(want) || g.Score != score) {
			t.Fatalf("%v %v of %v to %v:\ngot  %v %v %d\nwant %v %v %d", require, prefer, low, high, got, ok, g.Score, want, wantOK, score)
		}
		if ok {
			matched++
		} else {
			refused++
		}
	}
	if matched < 1000 || refused < 1000 {
		t.Errorf("the cases are one-sided: %d match, %d do not", matched, refused)
	}
}
