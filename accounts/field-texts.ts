/** What people call the fields of a person: on forms, on the consent page, and in the texts that a configuration brings. */
import { ownValue } from "../core/untrusted-keys.ts";
import { attributeRows, type FieldRow, type FieldSettings, type LocalText } from "./profile-fields.ts";

/** The key of the text that a form calls a field by. */
export const labelKey = (row: FieldRow): string =>
  row.texts === undefined ? `field.${shownName(row)}` : `attribute.${row.name}`;

/** The name by which people see a field: that of the documented profile, or else its claim. */
export function shownName({ name, isDocumented, claim }: FieldRow): string {
  return isDocumented ? name : (claim?.name ?? name);
}

/** What a service calls its attributes in a language, by the keys of the locale files. */
export function attributeTexts(
  accounts: FieldSettings["accounts"] = { attributes: {} },
): (locale: string, texts: Readonly<Record<string, string>>) => Readonly<Record<string, string>> {
  const rows = attributeRows(accounts);
  return (locale, texts) =>
    Object.fromEntries([
      ...rows.flatMap((row) => textsOf(row, locale)),
      ...rows.flatMap((row) => shareOf(row, locale, texts)),
    ]);
}

/** What a consent page says about an attribute that the person does not change. */
function shareOf(
  { name, edit, claim, texts: own }: FieldRow,
  locale: string,
  texts: Readonly<Record<string, string>>,
): (readonly [string, string])[] {
  if (edit === "person" || claim === undefined) return [];
  const label = texts[`field.${claim.name}`] ?? inLocale(own?.label ?? name, locale) ?? name;
  return [[`share.${claim.name}`, (texts["share.operator"] ?? "{field}").replace("{field}", () => label)]];
}

const inLocale = (text: LocalText, locale: string): string | undefined =>
  typeof text === "string" ? text : ownValue(text, locale);

function textsOf(row: FieldRow, locale: string): (readonly [string, string])[] {
  const { name, texts, input, claim } = row;
  if (texts === undefined) return [];
  const label = inLocale(texts.label, locale) ?? name;
  return [
    ...new Map([
      [`attribute.${name}`, label],
      ...(claim === undefined ? [] : [[`field.${claim.name}`, label] as const]),
      ...Object.entries(texts.options ?? {}).map(
        ([option, text]) =>
          [`${input?.optionTexts ?? name}.${option}`, inLocale(text, locale) ?? option] as const,
      ),
    ]),
  ];
}
