package main

import "github.com/urfave/cli/v2"

func userFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "user", EnvVars: []string{"HOLDFAST_USER"},
		Usage: "when started by root: give the data directory to this user and go on as it, a name or UID[:GID] (Linux)",
	}
}
