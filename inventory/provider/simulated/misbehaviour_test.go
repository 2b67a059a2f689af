package simulated

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNoopAnswersAlikeAndChangesNothing(t *testing.T) {
	b := setUp(t, "components: [{name: bad, behaviour: refuse}, {name: dead, behaviour: die}, {name: hung, behaviour: hang}]")
	all := "[" + nodeUpdate("a", "pc1", "on") + "," + nodeUpdate("b", "bad", "on") + "]"
	dry, err := b.accept(true, all)
	if err != nil || b.stateOf("a") != "absent" {
		t.Fatalf("after a dry run a is %s, %v", b.stateOf("a"), err)
	}
	wet, err := b.accept(false, all)
	if diff := cmp.Diff(wet, dry); diff != "" || err != nil {
		t.Errorf("dry and real run differ: %v\n%s", err, diff)
	}
	if _, err := b.accept(true, "["+nodeUpdate("c", "dead", "on")+","+nodeUpdate("d", "hung", "on")+"]"); err != nil {
		t.Errorf("a dry run %v", err)
	}
}

func TestMisbehaviourInDryRuns(t *testing.T) {
	b := setUp(t, "components: [{name: shy, behaviour: refuse, on: [probe], kind: failed}, {name: gone, behaviour: refuse, kind: unknown}, {name: dead, behaviour: die, on: [probe]}, {name: hung, behaviour: hang, on: [probe]}]")
	kind := func(noop bool, name, component string) any {
		t.Helper()
		changes, err := b.accept(noop, "["+nodeUpdate(name, component, "on")+"]")
		if err != nil {
			t.Fatal(err)
		}
		e, _ := changes[name]["error"].(map[string]any)
		return e["kind"]
	}
	for _, tt := range []struct {
		component string
		dry, wet  any
	}{{"shy", "failed", nil}, {"gone", "unknown", "unknown"}, {"pc1", nil, nil}} {
		if dry, wet := kind(true, tt.component, tt.component), kind(false, tt.component, tt.component); dry != tt.dry || wet != tt.wet {
			t.Errorf("%s: dry run %v, real run %v; want %v and %v", tt.component, dry, wet, tt.dry, tt.wet)
		}
	}
	for component, end := range map[string]error{"dead": errDie, "hung": errHang} {
		if _, err := b.accept(true, "["+nodeUpdate(component, component, "on")+"]"); err != end {
			t.Errorf("%s: a dry run %v", component, err)
		}
		if b.stateOf(component) != "absent" {
			t.Errorf("%s: a dry run has made it", component)
		}
		if _, err := b.accept(false, "["+nodeUpdate(component, component, "on")+"]"); err != nil {
			t.Errorf("%s: the real run %v", component, err)
		}
	}
}

// TestKindOfRefusal lists a component for several operations.
func TestKindOfRefusal(t *testing.T) {
	b := setUp(t, "components: [{name: pc3, behaviour: refuse, on: [start], kind: failed}, {name: pc3, behaviour: refuse, on: [make], kind: unknown, times: 1}, {name: pc3, behaviour: refuse, on: [probe]}]")
	for _, tt := range []struct {
		what, update string
		noop         bool
		kind         any
	}{
		{"dry run", nodeUpdate("n", "pc3", "off"), true, "forbidden"},
		{"make", nodeUpdate("n", "pc3", "off"), false, "unknown"},
		{"make again", nodeUpdate("n", "pc3", "off"), false, nil},
		{"start", `{"name":"n","should":{"power":"on"}}`, false, "failed"},
	} {
		changes, err := b.accept(tt.noop, "["+tt.update+"]")
		if err != nil {
			t.Fatal(err)
		}
		if e, _ := changes["n"]["error"].(map[string]any); e["kind"] != tt.kind {
			t.Errorf("%s: %v, want %v", tt.what, changes["n"], tt.kind)
		}
	}
}

func TestMisbehaviour(t *testing.T) {
	set := func(b *bench, updates ...string) error {
		_, err := b.accept(false, "["+strings.Join(updates, ",")+"]")
		return err
	}
	start := `{"name":"n","should":{"power":"on"}}`
	remove := `{"name":"n","should":{"ensure":"absent"}}`
	node := nodeUpdate("n", "pc3", "off")
	other := nodeUpdate("o", "pc1", "off")

	t.Run("slow takes longer", func(t *testing.T) {
		b := setUp(t, "slow_factor: 3\ncomponents: [{name: pc3, behaviour: slow}]")
		b.mustSet("[" + node + "]")
		b.expect(5999*time.Millisecond, "n", "changing")
		b.expect(time.Millisecond, "n", "ready")
	})
	t.Run("fail ends in failed and can be removed", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: fail}]")
		b.mustSet("[" + node + "]")
		b.expect(time.Second, "n", "changing")
		b.expect(time.Second, "n", "failed")
		if got := b.getNode("n").Text("message"); got != "pc3 could not be installed; this failure is simulated" {
			t.Errorf("message %q", got)
		}
		b.mustSet("[" + start + "]")
		b.expect(time.Minute, "n", "failed")
		b.mustSet("[" + remove + "]")
		b.expect(time.Minute, "n", "absent")
	})
	t.Run("fail to start, then start well", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: fail, times: 1, on: [start]}]")
		b.mustSet("[" + node + "]")
		b.expect(2*time.Second, "n", "ready")
		b.mustSet("[" + start + "]")
		b.expect(2*time.Second, "n", "failed")
		b.mustSet(`[{"name":"n","should":{"power":"off"}}]`)
		b.expect(2*time.Second, "n", "ready")
		b.mustSet("[" + start + "]")
		b.expect(2*time.Second, "n", "ready")
	})
	t.Run("fail to remove, then remove well", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: fail, times: 1, on: [remove]}]")
		b.mustSet("[" + node + "]")
		b.mustSet("[" + remove + "]")
		b.expect(2*time.Second, "n", "failed")
		b.mustSet("[" + remove + "]")
		b.expect(2*time.Second, "n", "absent")
	})
	t.Run("refuse", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: refuse}]")
		changes, err := b.accept(false, "["+node+","+other+"]")
		if e, _ := changes["n"]["error"].(map[string]any); err != nil || e["kind"] != "forbidden" || changes["o"]["error"] != nil {
			t.Errorf("%v, %v", changes, err)
		}
		b.expect(0, "n", "absent")
	})
	t.Run("hang does nothing and blocks nobody", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: hang, times: 1}]")
		if err := set(b, other, node); err != errHang {
			t.Fatalf("set %v", err)
		}
		b.expect(0, "o", "changing")
		b.expect(0, "n", "absent")
		if err := set(b, node); err != nil {
			t.Fatalf("the second time: %v", err)
		}
		b.expect(0, "n", "changing")
	})
	t.Run("die accepts and does not answer", func(t *testing.T) {
		b := setUp(t, "components: [{name: pc3, behaviour: die, on: [make]}]")
		if err := set(b, other, node, nodeUpdate("never", "pc4", "off")); err != errDie {
			t.Fatalf("set %v", err)
		}
		b.expect(0, "o", "changing")
		b.expect(2*time.Second, "n", "ready")
		b.expect(0, "never", "absent")
		b.mustSet("[" + start + "]")
	})
	t.Run("lose", func(t *testing.T) {
		b := setUp(t, "lose_after: 5s\ncomponents: [{name: pc3, behaviour: lose, times: 1}]")
		b.mustSet("[" + node + "]")
		b.expect(6999*time.Millisecond, "n", "ready")
		b.expect(time.Millisecond, "n", "absent")
		b.mustSet("[" + node + "]")
		b.expect(time.Minute, "n", "ready")
	})
}
