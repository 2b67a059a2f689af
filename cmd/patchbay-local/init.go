package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/local"
)

// providerFiles are the texts of a new provider's files.
type providerFiles struct {
	Script   string `json:"script"`
	Settings string `json:"settings"`
}

func initCommand() *cobra.Command {
	var s local.Site
	c := &cobra.Command{
		Use:   "init",
		Short: "Print the files of a new provider, NAME.prov and NAME.yaml, as JSON",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if s.Program, err = os.Executable(); err != nil {
				return err
			}
			return json.NewEncoder(c.OutOrStdout()).Encode(providerFiles{string(local.Script(s.Program, s.Name)), string(local.SettingsFor(s))})
		},
	}
	for name, value := range map[string]*string{
		"name": &s.Name, "instance": &s.Instance, "component": &s.Component, "public-host": &s.PublicHost, "listen": &s.Listen,
	} {
		c.Flags().StringVar(value, name, "", "the setting "+name)
	}
	c.Flags().Lookup("name").Usage = "name of the provider: the name of its file without .prov"
	c.Flags().BoolVar(&s.Outbound, "outbound", false, "nodes reach the Internet")
	return c
}
