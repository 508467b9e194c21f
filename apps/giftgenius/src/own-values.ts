/**
 * The owner of the application's own values: nobody can sign in as it, and nothing of it is ever shown. The owners of
 * people are `local` or begin with a bracket.
 */
export const OWN = "giftgenius";
