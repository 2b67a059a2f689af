package storetest

import (
	"errors"
	"fmt"

	"patchbay/am/store"
)

func lasts(p Place) error {
	for round := range 3 {
		e, err := p.Open()
		if err != nil {
			return err
		}
		var want []string
		for i := range round {
			want = append(want, fmt.Sprintf("k%d=%d", i, round))
		}
		if err := has(e, want...); err != nil {
			return fmt.Errorf("restart %d: %w", round, err)
		}
		var ops []store.Op
		for i := range round + 1 {
			ops = append(ops, set(fmt.Sprint("k", i), fmt.Sprint(round+1)))
		}
		if err := errors.Join(e.Apply([]store.Op{set("passing", "")}), e.Apply(append(ops, unset("passing"))), e.Close()); err != nil {
			return err
		}
	}
	return nil
}

func survives(p Place) error {
	e, err := p.Open()
	if err != nil {
		return err
	}
	defer e.Close()
	var want []string
	for i := range 5 {
		if err := e.Apply([]store.Op{set(fmt.Sprint("k", i), "1")}); err != nil {
			return err
		}
		want = append(want, fmt.Sprintf("k%d=1", i))
		_ = e.Apply([]store.Op{set("half", "1"), set("", "")})
		after, err := p.Crash()
		if err != nil {
			return err
		}
		if err := opened(func(e store.Engine) error { return has(e, want...) })(after); err != nil {
			return fmt.Errorf("after a crash: %w", err)
		}
	}
	return nil
}

func closed(p Place) error {
	e, err := p.Open()
	if err != nil {
		return err
	}
	if err := errors.Join(e.Apply([]store.Op{set("a", "1")}), e.Close()); err != nil {
		return err
	}
	if err := e.Apply([]store.Op{set("a", "2")}); err == nil {
		return errors.New("a closed engine applies")
	}
	if err := e.View(func(store.Reader) error { return nil }); err == nil {
		return errors.New("a closed engine shows something")
	}
	if err := e.Close(); err != nil {
		return fmt.Errorf("a second Close: %w", err)
	}
	return opened(func(e store.Engine) error { return has(e, "a=1") })(p)
}

func alone(p Place) error {
	first, err := p.Open()
	if err != nil {
		return err
	}
	defer first.Close()
	if err := first.Apply([]store.Op{set("a", "1")}); err != nil {
		return err
	}
	if second, err := p.Open(); err == nil {
		defer second.Close()
		if err := first.Apply([]store.Op{set("a", "2")}); err == nil {
			return errors.New("two have it open and may write")
		}
		return has(second, "a=1")
	}
	// The one that has it goes on.
	if err := first.Apply([]store.Op{set("b", "1")}); err != nil {
		return err
	}
	return has(first, "a=1", "b=1")
}
