//! Arguments that several commands share.

use std::path::PathBuf;

use super::Context;
use super::failure::Failure;
use crate::config::{Config, Flag, Inputs};

/// Where the configuration comes from.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct ConfigArgs {
    /// A configuration file over the defaults; variables (`TOLLGATE__SECTION__KEY`) and flags are stronger
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

/// Which data directory is meant.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct DataArgs {
    /// The data directory [default: `paths.data` of the configuration, which is ./data]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
}

/// Which part of a list is wanted.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct PageArgs {
    /// Go on after this cursor, which the page before ended with
    #[arg(long, value_name = "CURSOR")]
    pub(super) after: Option<String>,

    /// At most this many, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) limit: u16,
}

impl ConfigArgs {
    /// What a configuration is loaded from.
    pub(super) fn inputs(&self, context: &Context, flags: Vec<Flag>) -> Inputs {
        Inputs { file: self.config.clone(), environment: context.environment.clone(), flags }
    }

    /// The configuration.
    pub(super) fn load(&self, context: &Context, flags: Vec<Flag>) -> Result<Config, Failure> {
        Ok(Config::load(&self.inputs(context, flags))?)
    }
}

impl DataArgs {
    /// The directory as a flag of the configuration.
    pub(super) fn flags(&self) -> Vec<Flag> {
        let path = self.data.as_ref().map(|path| path.display().to_string());
        flag("--data", "paths.data", path).into_iter().collect()
    }

    /// The directory. A configuration that can't be used is no hindrance where the flag says it all.
    pub(super) fn directory(&self, config: &ConfigArgs, context: &Context) -> Result<PathBuf, Failure> {
        match &self.data {
            Some(data) if config.config.is_none() => Ok(data.clone()),
            Some(_) | None => Ok(config.load(context, self.flags())?.paths.data),
        }
    }
}

impl PageArgs {
    /// As parameters of a query.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let after = self.after.clone().map(|after| ("after", after));
        after.into_iter().chain([("limit", self.limit.to_string())]).collect()
    }
}

/// A flag of the configuration, if it was given.
pub(super) fn flag(name: &'static str, key: &'static str, value: Option<String>) -> Option<Flag> {
    value.map(|value| Flag { name, key, value })
}
