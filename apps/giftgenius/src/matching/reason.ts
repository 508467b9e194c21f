import type { Locale } from "./catalogue.ts";

/** Why no interest led to a gift. */
export type Lack = "none_given" | "none_understood" | "none_left";

interface Sentences {
  /** Between the last two of several labels. */
  readonly and: string;
  readonly quote: (label: string) => string;
  readonly interest: (labels: string, isOne: boolean) => string;
  readonly department: (label: string, lack: string) => string;
  readonly general: (lack: string) => string;
  readonly lacks: Readonly<Record<Lack, string>>;
}

const SENTENCES: Readonly<Record<Locale, Sentences>> = {
  en: {
    and: " and ",
    quote: (label) => `“${label}”`,
    interest: (labels, isOne) => `Matches the ${isOne ? "interest" : "interests"} ${labels}`,
    department: (label, lack) => `Picked with the department ${label} in mind: ${lack}`,
    general: (lack) => `Suits almost anyone: ${lack}`,
    lacks: {
      none_given: "no interests were given",
      none_understood: "the interests given were not recognised",
      none_left: "nothing more for the interests given fits the budget",
    },
  },
  es: {
    and: " y ",
    quote: (label) => `«${label}»`,
    interest: (labels, isOne) => `Responde ${isOne ? "al interés" : "a los intereses"} ${labels}`,
    department: (label, lack) => `Elegido pensando en el departamento ${label}: ${lack}`,
    general: (lack) => `Gusta a casi todo el mundo: ${lack}`,
    lacks: {
      none_given: "no se indicaron intereses",
      none_understood: "no se reconocieron los intereses indicados",
      none_left: "no queda nada para los intereses indicados dentro del presupuesto",
    },
  },
  fr: {
    and: " et ",
    quote: (label) => `« ${label} »`,
    interest: (labels, isOne) =>
      `Répond ${isOne ? "au centre d’intérêt" : "aux centres d’intérêt"} ${labels}`,
    department: (label, lack) => `Choisi en pensant au service ${label} : ${lack}`,
    general: (lack) => `Convient à presque tout le monde : ${lack}`,
    lacks: {
      none_given: "aucun centre d’intérêt n’a été indiqué",
      none_understood: "les centres d’intérêt indiqués n’ont pas été reconnus",
      none_left: "rien d’autre ne répond aux centres d’intérêt dans ce budget",
    },
  },
  zh: {
    and: "和",
    quote: (label) => `“${label}”`,
    interest: (labels) => `符合兴趣${labels}`,
    department: (label, lack) => `按所在部门${label}挑选：${lack}`,
    general: (lack) => `适合大多数人：${lack}`,
    lacks: {
      none_given: "未填写兴趣",
      none_understood: "未能识别所填兴趣",
      none_left: "预算内没有更多符合兴趣的礼物",
    },
  },
};

/** Names the interests that a gift answers, by their labels in the run's language; at least one. */
export function interestReason(locale: Locale, labels: readonly string[]): string {
  const { and, quote, interest } = SENTENCES[locale];
  const quoted = labels.map(quote);
  const last = quoted.pop() ?? "";
  const separator = locale === "zh" ? "、" : ", ";
  return interest(quoted.length === 0 ? last : `${quoted.join(separator)}${and}${last}`, labels.length === 1);
}

/** Says honestly that the department, not an interest, led to the gift. */
export function departmentReason(locale: Locale, label: string, lack: Lack): string {
  const { quote, department, lacks } = SENTENCES[locale];
  return department(quote(label), lacks[lack]);
}

/** Says honestly that nothing about the person led to the gift. */
export function generalReason(locale: Locale, lack: Lack): string {
  const { general, lacks } = SENTENCES[locale];
  return general(lacks[lack]);
}
