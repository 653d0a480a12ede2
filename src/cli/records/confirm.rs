//! Asking before something is changed that cannot be changed back.

use std::io::{self, IsTerminal, Write};

use super::Trouble;

/// Whether somebody can be asked, and has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    Given,
    ToBeAsked,
}

impl Consent {
    /// Before anything is done: without a terminal only `--yes` will do.
    pub fn expected(yes: bool) -> Result<Self, Trouble> {
        match yes {
            true => Ok(Self::Given),
            false if io::stdin().is_terminal() && io::stderr().is_terminal() => Ok(Self::ToBeAsked),
            false => Err(Trouble::Usage(
                "nothing was changed: there is no terminal to ask on. Look at the record with \
                 `oncegate records show`, then say --yes."
                    .to_owned(),
            )),
        }
    }
}

/// Shows what is going to happen; where consent is to be asked, waits for the word.
pub fn ask(consent: Consent, preview: &str) -> Result<(), Trouble> {
    eprintln!("{preview}");
    if consent == Consent::Given {
        return Ok(());
    }
    eprint!("Type yes to go on: ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    match io::stdin().read_line(&mut answer) {
        Ok(_) if answer.trim().eq_ignore_ascii_case("yes") => Ok(()),
        _ => Err(Trouble::NotPossible("nothing was changed.".to_owned())),
    }
}
