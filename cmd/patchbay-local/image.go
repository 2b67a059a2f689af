package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"patchbay/inventory/provider/local/image"
)

func imageCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Manage images for local nodes",
	}
	c.AddCommand(imageAddCommand(), imageListCommand(), imageRemoveCommand())
	return c
}

func imageAddCommand() *cobra.Command {
	var site siteFlags
	var from string
	c := &cobra.Command{
		Use:   "add SETTINGS NAME",
		Short: "Create an image from a folder, a tarball, or a Debian release",
		Long: `Create an image. With --from it is copied from a folder or unpacked from a
tarball. Otherwise NAME is a Debian release, such as debian-12, which mmdebstrap
fetches from Debian's servers.

To offer it to experimenters, add it to inventory.yaml, under images and in the
sliver type. Existing nodes keep their images.`,
		Example: `  patchbay-local image add mysite/providers/local.yaml debian-12
  patchbay-local image add mysite/providers/local.yaml router --from router.tar.xz`,
		Args: argumentCount(2, 2, "SETTINGS", "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := site.images(args[0])
			if err != nil {
				return err
			}
			if err := s.Add(c.Context(), args[1], from, c.ErrOrStderr()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "The image %s is created. Name it in inventory.yaml, under images and in the sliver type.\n", args[1])
			return err
		},
	}
	site.add(c)
	c.Flags().StringVar(&from, "from", "", "a folder or a tarball (.tar, .tar.gz, .tar.bz2, .tar.xz, .tar.zst)")
	return c
}

func imageListCommand() *cobra.Command {
	var site siteFlags
	c := &cobra.Command{
		Use:   "list SETTINGS",
		Short: "List the images",
		Args:  argumentCount(1, 1, "SETTINGS"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := site.images(args[0])
			if err != nil {
				return err
			}
			names, err := s.Names()
			if err != nil {
				return err
			}
			for _, name := range names {
				fmt.Fprintln(c.OutOrStdout(), name)
			}
			return nil
		},
	}
	site.add(c)
	return c
}

func imageRemoveCommand() *cobra.Command {
	var site siteFlags
	c := &cobra.Command{
		Use:   "remove SETTINGS NAME",
		Short: "Remove an image",
		Long: `Remove an image, so that no new node can use it. Nodes that use it keep it. Its
files are deleted at a start of the testbed when no node uses them.`,
		Args: argumentCount(2, 2, "SETTINGS", "NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := site.images(args[0])
			if err != nil {
				return err
			}
			return s.Remove(args[1], func(string) bool { return true })
		},
	}
	site.add(c)
	return c
}

func (f *siteFlags) images(settings string) (*image.Store, error) {
	if err := needRoot(); err != nil {
		return nil, err
	}
	_, state, err := f.read(settings)
	if err != nil {
		return nil, err
	}
	return image.Open(filepath.Join(state, "images"))
}
