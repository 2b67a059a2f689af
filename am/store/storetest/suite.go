package storetest

import (
	"testing"

	"patchbay/am/store"
)

// Place is where an engine keeps its bytes.
type Place interface {
	// Open opens the engine of this place.
	Open() (store.Engine, error)
	// Crash gives another place with what would be found here if all processes
	// that have it open ended at this moment. This one goes on.
	Crash() (Place, error)
}

// Rule is one thing that an engine must do.
type Rule struct {
	Name string
	// Check tries it in a place that is empty. Its error says what the engine did.
	Check func(Place) error
}

// Run holds an engine against all rules; fresh makes an empty place for each.
func Run(t *testing.T, fresh func(t *testing.T) Place) {
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			if err := r.Check(fresh(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Rules are all rules.
func Rules() []Rule {
	return []Rule{
		{"keys are in the order of their bytes", opened(order)},
		{"a scan has a prefix, a beginning and an end", opened(scans)},
		{"buckets are apart", opened(bucketsApart)},
		{"an absent key is nil, an empty value is not", opened(absent)},
		{"operations happen in order", opened(inOrder)},
		{"an Apply happens wholly or not at all", opened(wholly)},
		{"a key may have every byte", opened(everyByte)},
		{"keys are long", opened(longKeys)},
		{"values are large", opened(largeValues)},
		{"keys are many", opened(manyKeys)},
		{"nothing of the caller is kept", opened(ownBytes)},
		{"a view stays as it was", opened(isolated)},
		{"a view sees all of an Apply or nothing", opened(consistent)},
		{"a view hands on what ends it", opened(handsOn)},
		{"what was applied is there after a restart", lasts},
		{"what was applied is there after a crash", survives},
		{"a closed engine does nothing", closed},
		{"one writes at a time", alone},
	}
}

// opened is a rule of an engine that is open all the time.
func opened(f func(store.Engine) error) func(Place) error {
	return func(p Place) error {
		e, err := p.Open()
		if err != nil {
			return err
		}
		err = f(e)
		if closing := e.Close(); err == nil {
			err = closing
		}
		return err
	}
}
