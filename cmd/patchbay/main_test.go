package main

import (
	"testing"

	"patchbay/am/testkit/program"
)

func TestMain(m *testing.M) { program.Main(m) }
